#include "tuning/strategies.h"

#include <algorithm>
#include <map>
#include <random>

#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::tuning {
namespace {

using jit::Trial;
using jit::Variant;
using Variants = std::vector<Variant>;

constexpr std::size_t kFirst = 3;

bool is_tried(const Variant& variant, const std::vector<Trial>& before) {
  return std::any_of(before.begin(), before.end(),
                     [&](const Trial& trial) { return trial.variant == variant; });
}

std::optional<Variant> first_untried(const Variants& candidates, const std::vector<Trial>& before) {
  for (const Variant& one : candidates)
    if (!is_tried(one, before)) return one;
  return {};
}

// The fastest so far; the default if no trial was faster.
Variant fastest(const Variant& usual, const std::vector<Trial>& before) {
  Variant best = usual;
  double ratio = 1;
  for (const Trial& trial : before)
    if (trial.status == jit::TrialStatus::timed && trial.times.rounds > 0 &&
        trial.times.ratio < ratio) {
      best = trial.variant;
      ratio = trial.times.ratio;
    }
  return best;
}

jit::Strategy local(const jit::VariantSpace& space, const Variants& ordered) {
  std::map<Variant, std::size_t> places;
  for (std::size_t i = 0; i < ordered.size(); ++i) places[ordered[i]] = i;
  const Variant usual = jit::default_variant(space.plan, space.target);
  return [=](const std::vector<Trial>& before) -> std::optional<Variant> {
    const Variants first(ordered.begin(), ordered.begin() + static_cast<std::ptrdiff_t>(
                                                                std::min(kFirst, ordered.size())));
    if (const auto next = first_untried(first, before)) return next;
    Variants near = space.neighbours(fastest(usual, before));
    std::erase(near, usual);
    std::stable_sort(near.begin(), near.end(), [&](const Variant& a, const Variant& b) {
      return places.at(a) < places.at(b);
    });
    return first_untried(near, before);
  };
}

}  // namespace

const std::vector<std::string>& strategy_names() {
  static const std::vector<std::string> names = {"exhaustive", "random", "local"};
  return names;
}

std::vector<Variant> by_model(const jit::VariantSpace& space, const Model& model) {
  std::vector<std::pair<double, Variant>> costs;
  for (const Variant& variant : space.all()) costs.emplace_back(model(variant), variant);
  costs.erase(costs.begin());  // the default
  std::stable_sort(costs.begin(), costs.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Variants ordered;
  for (const auto& [cost, variant] : costs) ordered.push_back(variant);
  return ordered;
}

jit::Strategy make_strategy(const std::string& name, const jit::VariantSpace& space,
                            const Model& model, std::uint64_t seed) {
  if (name == "exhaustive") return jit::in_order(by_model(space, model));
  if (name == "local") return local(space, by_model(space, model));
  if (name != "random")
    throw jit::Error(jit::text("there is no strategy \"", name, "\"; there are ",
                               jit::joined(strategy_names())));
  // From an order that depends on nothing else. Not std::shuffle, whose order differs between standard libraries.
  Variants ordered = space.all();
  ordered.erase(ordered.begin());  // the default
  std::mt19937_64 random(seed);
  for (std::size_t i = ordered.size(); i > 1; --i) std::swap(ordered[i - 1], ordered[random() % i]);
  return jit::in_order(std::move(ordered));
}

}  // namespace jitstep::tuning
