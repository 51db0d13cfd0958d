// The kernels that a file is checked with.
#pragma once

#include <emulation/option_covering_set.h>
#include <emulation/step_case.h>

#include <string>
#include <vector>

#include "request.h"
#include "workbench.h"

namespace jitstep::tool::check {

/// Weight format and dtype of a parameter.
struct Weights {
  std::string name = "native";
  jit::Dtype dtype = jit::Dtype::float32;
};

/// A requested kernel. Every slot has the same codec, except slots for which the rule names another one (`codec:`).
struct Choice {
  std::string rule;
  emulation::RuleOptions options = {};
  jit::CodecChoice codec = {"fp32"};
  Weights weights = {};
  bool measures_codec = false;
};

/// For a rule: its default options with each requested codec and weight format (default: every codec and weight format,
/// float64 and bfloat16). Then the options of option_covering_set.h with the first codec and weight format. For a
/// codec: three shipped rules, the first one with all options of the codec. Throws an Error if a requested codec or
/// weight format does not exist. The kernels of a codec's options measure its round-trip error.
std::vector<Choice> choices(const jit::Manifest& file, const Request& request,
                            Workbenches& benches);

/// A kernel to check, and the steps that check it.
struct Candidate {
  std::string name;  // "signum_int8_float32", then options that are not at their defaults
  emulation::StepCase steps;
  bool plain_options = true;    // all options of the rule have their defaults
  bool measures_codec = false;  // measures the round-trip error of the first slot's codec
};

/// Throws an Error if the choice gives no kernel.
Candidate candidate(const Choice& choice, const jit::Catalog& catalog);

}  // namespace jitstep::tool::check
