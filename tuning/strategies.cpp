#include "tuning/strategies.h"

#include <algorithm>
#include <map>
#include <random>

#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::tuning {
namespace {

using jit::KernelConfig;
using jit::Trial;
using Variants = std::vector<KernelConfig>;

constexpr std::size_t kFirst = 3;

bool is_tried(const KernelConfig& config, const std::vector<Trial>& before) {
  return std::any_of(before.begin(), before.end(),
                     [&](const Trial& trial) { return trial.config == config; });
}

std::optional<KernelConfig> first_untried(const Variants& candidates,
                                          const std::vector<Trial>& before) {
  for (const KernelConfig& one : candidates)
    if (!is_tried(one, before)) return one;
  return {};
}

// The fastest configuration so far. The default if no trial was faster.
KernelConfig fastest(const KernelConfig& default_config, const std::vector<Trial>& before) {
  KernelConfig best = default_config;
  double ratio = 1;
  for (const Trial& trial : before)
    if (trial.status == jit::TrialStatus::timed && trial.times.rounds > 0 &&
        trial.times.ratio < ratio) {
      best = trial.config;
      ratio = trial.times.ratio;
    }
  return best;
}

jit::Strategy local(const jit::ConfigSpace& space, const Variants& ordered) {
  std::map<KernelConfig, std::size_t> indices;
  for (std::size_t i = 0; i < ordered.size(); ++i) indices[ordered[i]] = i;
  const KernelConfig default_config = jit::default_kernel_config(space.plan, space.target);
  return [=](const std::vector<Trial>& before) -> std::optional<KernelConfig> {
    const Variants first(ordered.begin(), ordered.begin() + static_cast<std::ptrdiff_t>(
                                                                std::min(kFirst, ordered.size())));
    if (const auto next = first_untried(first, before)) return next;
    Variants near = space.neighbors(fastest(default_config, before));
    std::erase(near, default_config);
    std::stable_sort(near.begin(), near.end(), [&](const KernelConfig& a, const KernelConfig& b) {
      return indices.at(a) < indices.at(b);
    });
    return first_untried(near, before);
  };
}

}  // namespace

const std::vector<std::string>& strategy_names() {
  static const std::vector<std::string> names = {"exhaustive", "random", "local"};
  return names;
}

std::vector<KernelConfig> by_model(const jit::ConfigSpace& space, const Model& model) {
  std::vector<std::pair<double, KernelConfig>> costs;
  for (const KernelConfig& config : space.all()) costs.emplace_back(model(config), config);
  costs.erase(costs.begin());  // the default
  std::stable_sort(costs.begin(), costs.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Variants ordered;
  for (const auto& [cost, config] : costs) ordered.push_back(config);
  return ordered;
}

jit::Strategy make_strategy(const std::string& name, const jit::ConfigSpace& space,
                            const Model& model, std::uint64_t seed) {
  if (name == "exhaustive") return jit::in_order(by_model(space, model));
  if (name == "local") return local(space, by_model(space, model));
  if (name != "random")
    throw jit::Error(jit::str_cat("unknown strategy \"", name,
                                  "\". Strategies: ", jit::joined(strategy_names()), "."));
  // The order depends on the seed only. std::shuffle differs between standard libraries.
  Variants ordered = space.all();
  ordered.erase(ordered.begin());  // the default
  std::mt19937_64 random(seed);
  for (std::size_t i = ordered.size(); i > 1; --i) std::swap(ordered[i - 1], ordered[random() % i]);
  return jit::in_order(std::move(ordered));
}

}  // namespace jitstep::tuning
