// Checks that run steps of one kernel, on the CPU and in the emulation.
#pragma once

#include <emulation/emulated_backend.h>
#include <emulation/step_run.h>

#include <string>
#include <vector>

#include "kernels.h"
#include "report.h"
#include "workbench.h"

namespace jitstep::tool::check {

/// One way to run GPU code in the emulation.
struct Way {
  std::string name;
  jit::KernelConfig config;
  emulation::Grouping grouping;
  unsigned blocks;
  emulation::BlockOrder order;
  emulation::LaneOrder lanes;
};

/// The GPU's default config in order, and a config with other team and vector sizes in a random order of blocks and
/// lanes.
std::vector<Way> ways(const jit::Plan& plan);

/// The first difference between the CPU and the emulation, as a sentence: step, tensor, element and both values. Empty
/// if all bits are equal.
std::string difference_under_emulation(const Candidate& candidate, Workbench& plain);

/// The first difference between a normal run and one with poisoned unset values. Empty if there is none. The rule must
/// have passed check_rule_contract().
std::string difference_of_poison(const Candidate& candidate, Workbenches& benches);

/// The result of many steps on a quadratic function with gradient p - minimum.
struct Minimization {
  std::string problem = {};  // a negative value in a NonNegative slot, as a sentence; else empty
  // Infinite or NaN parameters. With default options, also an increase of the function, or no change at all.
  std::string warning = {};
};

/// Empty for parameters other than float32.
Minimization minimize_quadratic(const Candidate& candidate, Workbench& plain);

/// Adds the rule that round_trips() runs. Call it once.
void add_round_trip_rule(Workbench& plain);

/// The round-trip error of a codec for each kind of slot that it supports. Compiles an additional kernel for the
/// emulation, which compiles faster than the CPU's and gives the same bits. Thread safe.
std::vector<RoundTrip> round_trips(const jit::CodecChoice& codec, Workbench& plain);

/// A sentence if the round-trip error is above the limit, else empty.
std::string problem_of(const RoundTrip& trip);

}  // namespace jitstep::tool::check
