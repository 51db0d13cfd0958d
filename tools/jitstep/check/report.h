// What was found out about a file.
#pragma once

#include <jitstep/jit/compiler.h>
#include <jitstep/jit/manifest.h>
#include <jitstep/jit/plan.h>

#include <optional>
#include <string>
#include <vector>

#include "../cost.h"
#include "../usage.h"

namespace jitstep::tool::check {

/// A kernel compiled for one target.
struct TargetReport {
  jit::Target target;
  bool compiled = false;
  double compile_ms = 0;  // here, or where the cache was filled
  bool from_cache = false;
  std::vector<jit::Resources> entries = {};  // of GPUs
};

/// Something wrong with the file.
struct Problem {
  std::string what;          // a sentence
  std::string details = {};  // the compiler's output, if there is any
  std::string group = what;  // the first of a group is told for all kernels that have one
};

/// What a codec loses of the numbers of a slot, from one step to the next.
struct RoundTrip {
  std::string slot;
  double loss = 0;     // the root mean square of what is lost, in units of that of the numbers
  double allowed = 0;  // what codes of so many bits may lose
  int bits = 0;
};

/// One kernel. What was not reached, because something before it is wrong, is empty.
struct KernelReport {
  std::string name;
  std::optional<jit::Plan> plan;
  StateBytes state;
  std::vector<TargetReport> targets;
  std::optional<bool> keeps_contract;
  std::optional<bool> same_bits;       // under the emulation, with two configurations
  std::vector<RoundTrip> round_trips;  // of a codec's kernels in float32
  std::vector<Problem> problems;
  std::vector<std::string> warnings;
};

/// The file.
struct Report {
  std::string path;
  const jit::Manifest* manifest = nullptr;  // null if it cannot be read
  std::vector<jit::Target> targets = {};    // the CPU first
  std::vector<KernelReport> kernels = {};
  std::vector<Problem> problems = {};       // of no kernel
  std::vector<std::string> unchecked = {};  // what could not be checked on this machine, and why

  Status status() const;
};

/// Plain lines and tables.
std::string to_text(const Report& report);
/// The same as one JSON object.
std::string to_json(const Report& report);

}  // namespace jitstep::tool::check
