// Steps of one kernel, everywhere a step can be made without a GPU.
#pragma once

#include <emulation/emulated_backend.h>
#include <emulation/step_run.h>

#include <string>
#include <vector>

#include "kernels.h"
#include "report.h"
#include "workbench.h"

namespace jitstep::tool::check {

/// One way of running the GPU's schedule.
struct Way {
  std::string name;
  jit::KernelConfig config;
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

/// What many steps down a bowl (the gradient is p less its goal) show.
struct Bowl {
  std::string problem = {};  // a slot without signs that has one, a sentence; empty if none has
  std::string warning =
      {};  // numbers that are not finite or, with default options, a way uphill or none at all
};

/// Nothing is looked at unless parameters are float32.
Bowl bowl_of(const Candidate& candidate, Workbench& plain);

/// What is lost of numbers that a codec keeps, for each kind of slot that it is for. Compiles a kernel of its own.
std::vector<RoundTrip> round_trips(const jit::CodecChoice& codec, Workbench& plain);

/// A sentence if more is lost than the codec's bits allow; else empty.
std::string problem_of(const RoundTrip& trip);

}  // namespace jitstep::tool::check
