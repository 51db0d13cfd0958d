// The results of `jitstep check`.
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
  double compile_ms = 0;  // for a cached kernel, measured where the cache was filled
  bool from_cache = false;
  std::vector<jit::Resources> entries = {};  // GPU targets only
};

/// An error in the file.
struct Problem {
  std::string what;          // one sentence
  std::string details = {};  // the compiler's output, or empty
  std::string group = what;  // the report prints only the first problem of a group
};

/// The round-trip error of a codec in one slot, from one step to the next.
struct RoundTrip {
  std::string slot;
  double loss = 0;     // root mean square of the error / root mean square of the values
  double allowed = 0;  // limit of `loss` for codes with this number of bits
  int bits = 0;
};

/// One kernel. Members stay empty if an earlier check failed.
struct KernelReport {
  std::string name;
  std::optional<jit::Plan> plan;
  StateBytes state;
  std::vector<TargetReport> targets;
  std::optional<bool> keeps_contract;
  std::optional<bool> same_bits;       // on the CPU and in the emulation, with two configs
  std::vector<RoundTrip> round_trips;  // codecs only, kernels of float32 parameters only
  std::vector<Problem> problems;
  std::vector<std::string> warnings;
};

/// The results of one file.
struct Report {
  std::string path;
  const jit::Manifest* manifest = nullptr;  // null if it cannot be read
  std::vector<jit::Target> targets = {};    // the CPU first
  std::vector<KernelReport> kernels = {};
  std::vector<Problem> problems = {};       // that belong to no kernel
  std::vector<std::string> warnings = {};   // that belong to no kernel
  std::vector<std::string> unchecked = {};  // checks that could not run here, with reasons

  Status status() const;
};

/// The report as text with tables.
std::string to_text(const Report& report);
/// The report as one JSON object.
std::string to_json(const Report& report);

}  // namespace jitstep::tool::check
