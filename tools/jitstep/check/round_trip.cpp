// Numbers through a codec and back: whether `decode` undoes `encode`.
#include <jit/base/text.h>
#include <jit/step/convert.h>
#include <jitstep/jit/state_memory.h>

#include <cmath>
#include <random>

#include "steps.h"

namespace jitstep::tool::check {
namespace {

using namespace jitstep::jit;
using Floats = std::vector<float>;

constexpr double kLost = 0.75;  // more than of numbers whose signs and mean magnitude are kept

// Of five decades, without a sign where the slot has none.
Floats numbers(std::size_t count, bool negative) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> decade(-5, 0), sign(-1, 1);
  Floats all(count);
  for (float& x : all) {
    x = std::pow(10.0f, decade(random));
    if (negative && sign(random) < 0) x = -x;
  }
  return all;
}

// The root mean square of what is lost, in units of that of the numbers.
double lost(const Floats& numbers, const Floats& back) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    error += std::pow(double{back[i]} - double{numbers[i]}, 2);
    size += std::pow(double{numbers[i]}, 2);
  }
  return std::sqrt(error / size);
}

}  // namespace

std::vector<std::string> warnings_of_round_trip(const Candidate& candidate, Workbench& plain) {
  const emulation::StepCase& c = candidate.steps;
  const Plan plan = kernel_of(c, plain.catalog);
  CpuMachine cpu(plain.engine);
  const StateMemory state(cpu, plan, options_of(c, plain.catalog), {24, 40});
  Floats p(960), back(p.size());
  std::vector<std::string> warnings;
  const std::vector<Slot>& slots = plan.rule().slots;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Manifest* codec = plan.parts[kFirstCodecPart + i];
    if (codec == nullptr || !codec->memory.empty()) continue;  // only a step's sums fill that
    const Floats x = numbers(p.size(), slots[i].is_signed);
    const KeptTensor kept{plan, state.tensor(p.data()), 1};
    encode_slot(cpu, kept, static_cast<int>(i), x.data());
    decode_slot(cpu, kept, static_cast<int>(i), back.data());
    if (const double share = lost(x, back); !(share <= kLost))
      warnings.push_back(text("of numbers that are encoded for slot '", slots[i].name,
                              "' decode gives back others: ", std::round(100 * share),
                              " % are lost"));
  }
  return warnings;
}

}  // namespace jitstep::tool::check
