// Encodes values in one step and decodes them in the next one. `decode` must use the scales and auxiliary state that
// `encode` used.
#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jitstep/jit/state_storage.h>
#include <jitstep/jit/step.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "steps.h"

namespace jitstep::tool::check {
namespace {

using namespace jitstep::jit;
using Floats = std::vector<float>;

// Slots m and v have the codec and store the gradient and its magnitude. m_found and v_found are float32 and store the
// values that the step decoded.
constexpr const char* kRule = "jitstep_echo";
constexpr const char* kRuleText =
    "#pragma once\n#include \"../lang/contract.cuh\"\n"
    R"(
namespace jitstep::rules::jitstep_echo {
struct Slots {
  Signed m;
  NonNegative v;
  Signed m_found;
  Signed v_found;
};
struct Rule {
  KHD static void update_state(auto& e, const auto&) {
    e.m.next = e.g;
    e.v.next = abs(e.g);
    e.m_found.next = e.m.prev;
    e.v_found.next = e.v.prev;
  }
  KHD static void update_param(auto&, const auto&) {}
};
}
)";
constexpr std::size_t kSlots = 2;

// The largest error that a codec may have, as a share of the root mean square of the values. It assumes half of the
// bits for precision and half for range. A codec that stores only the mean exceeds 0.55.
double allowed_loss(int bits) { return std::min(0.55, std::exp2(1 - bits / 2.0)); }

// Each value is a product of one factor per dimension, so that codecs with row and column scales can represent it.
// Signs are random.
Floats numbers(const std::vector<std::int64_t>& sizes, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> doublings(-2, 0), sign(-1, 1);
  Floats all = {1};
  for (const std::int64_t size : sizes) {
    Floats wider;
    Floats factors(static_cast<std::size_t>(size));
    for (float& factor : factors) factor = std::exp2(doublings(random));
    for (const float x : all)
      for (const float factor : factors) wider.push_back(x * factor);
    all = std::move(wider);
  }
  for (float& x : all)
    if (sign(random) < 0) x = -x;
  return all;
}

Floats magnitudes(Floats numbers) {
  for (float& x : numbers) x = std::abs(x);
  return numbers;
}

// The root mean square of the error, divided by the root mean square of the values.
double lost(const Floats& numbers, const float* back) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    error += std::pow(double{back[i]} - double{numbers[i]}, 2);
    size += std::pow(double{numbers[i]}, 2);
  }
  return std::sqrt(error / size);
}

// Sizes of a tensor with the number of dimensions in the codec's option `dims`, by default 2.
std::vector<std::int64_t> sizes_for(const CodecChoice& codec) {
  const auto dims = codec.options.find("dims");
  const int count = dims == codec.options.end() ? 2 : static_cast<int>(dims->second.number());
  if (count < 3) return {24, 40};
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(count), 4);
  sizes.back() = 15;
  return sizes;
}

KernelSpec spec_of(const CodecChoice& codec) {
  const CodecChoice plain{"fp32"};
  return {.rule = kRule, .state = {.slots = {codec, codec, plain, plain}}};
}

// The largest error of each slot in four steps. The first step has no earlier values to decode.
std::array<double, kSlots> losses(Backend& emulated, const Plan& plan, const OptionValues& options,
                                  const std::vector<std::int64_t>& sizes) {
  const StateStorage state(emulated, plan, options, sizes);
  Floats g = numbers(sizes, 0), p(g.size());
  const StepTensor tensor = state.tensor(p.data());
  Step step(emulated, {{plan, {tensor}}});
  std::array<double, kSlots> most{};
  for (int t = 1; t <= 4; ++t) {
    const Floats before = g;
    g = numbers(sizes, static_cast<unsigned>(t));
    for (float& x : g) x *= t % 2 == 0 ? 8 : 1;  // scales must grow and shrink
    step.run({{.g = g.data()}}, {plan.at_step(options, t)});
    for (std::size_t slot = 0; slot < kSlots && t > 1; ++slot) {
      const auto* found = static_cast<const float*>(tensor.slots[slot + kSlots].codes);
      const double share = lost(slot == 0 ? before : magnitudes(before), found);
      if (std::isnan(share) || share > most[slot]) most[slot] = share;  // never replaces a NaN
    }
  }
  return most;
}

}  // namespace

void add_round_trip_rule(Workbench& plain) {
  plain.engine.templates().add(str_cat("rules/", kRule, ".cuh"), kRuleText);
}

std::vector<RoundTrip> round_trips(const CodecChoice& codec, Workbench& plain) {
  const CodecChoice whole = complete(codec, plain.catalog);
  const Plan plan = resolve(spec_of(whole), plain.catalog);
  const OptionValues options(kRule, plain.catalog);
  const Way way = ways(plan)[0];
  emulation::EmulatedBackend emulated(plain.engine, way.blocks, way.order, way.lanes);
  const auto shares = losses(emulated, plan, options, sizes_for(whole));
  std::vector<RoundTrip> trips(kSlots);
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    trips[slot].slot = plan.rule().slots[slot].name;
    trips[slot].bits = plan.codec(static_cast<int>(slot))->code_bits(Dtype::float32);
    trips[slot].allowed = allowed_loss(trips[slot].bits);
    trips[slot].loss = shares[slot];
  }
  // A codec may delegate signed slots to another codec, which is not checked here.
  std::erase_if(trips, [&](const RoundTrip& trip) {
    return plan.codec(trip.slot == "m" ? 0 : 1)->name != codec.name;
  });
  return trips;
}

std::string problem_of(const RoundTrip& trip) {
  if (trip.loss <= trip.allowed) return "";
  return str_cat("the round-trip error of slot '", trip.slot, "' is ", fixed(100 * trip.loss, 1),
                 " %, but codes of ", trip.bits, " bits may lose at most ",
                 fixed(100 * trip.allowed, 1),
                 " %. `decode` must use the Meta and auxiliary state that `encode` used.");
}

}  // namespace jitstep::tool::check
