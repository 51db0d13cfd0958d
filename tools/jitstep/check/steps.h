// Steps of one kernel, everywhere a step can be made without a GPU.
#pragma once

#include <emulation/emulated_machine.h>
#include <emulation/step_run.h>

#include <string>
#include <vector>

#include "kernels.h"
#include "workbench.h"

namespace jitstep::tool::check {

/// One way of running the GPU's schedule.
struct Way {
  std::string name;
  jit::Variant variant;
  emulation::Grouping grouping;
  unsigned blocks;
  emulation::BlockOrder order;
  emulation::LaneOrder lanes;
};

/// The GPU's default, and one with smaller teams, half the vectors and blocks and lanes in a random order.
std::vector<Way> ways(const jit::Plan& plan);

/// What differs between the CPU and the emulation, a sentence: the first tensor and element, the step and
/// both values. Empty if nothing does.
std::string difference_under_emulation(const Candidate& candidate, Workbench& plain);

/// What differs once everything is poisoned that nobody has set; empty if nothing does. For rules that keep
/// their contract.
std::string difference_of_poison(const Candidate& candidate, Workbenches& benches);

/// What is odd about many steps down a bowl (the gradient is p less its goal), a sentence: numbers that
/// are not finite or, with default options, a way uphill. Empty if nothing is, or if parameters are no
/// float32.
std::string warning_of_bowl(const Candidate& candidate, Workbench& plain);

/// A sentence for each slot whose codec gives other numbers back than it was given. Compiles kernels of its own.
std::vector<std::string> warnings_of_round_trip(const Candidate& candidate, Workbench& plain);

}  // namespace jitstep::tool::check
