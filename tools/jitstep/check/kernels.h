// Which kernels a file is tried in.
#pragma once

#include <emulation/option_covering_set.h>
#include <emulation/step_case.h>

#include <string>
#include <vector>

#include "request.h"
#include "workbench.h"

namespace jitstep::tool::check {

/// How a parameter is kept.
struct Weights {
  std::string name = "native";
  jit::Dtype dtype = jit::Dtype::float32;
};

/// A kernel as it is asked for, every slot in one codec but those that the rule keeps in another (`keeps:`).
struct Choice {
  std::string rule;
  emulation::RuleOptions options = {};
  jit::CodecChoice codec = {"fp32"};
  Weights weights = {};
};

/// Of a rule: its default options with each codec and weight format that is asked for, or with every
/// codec, float64 and bfloat16; then, with the first of those, what option_covering_set.h finds. Of a codec:
/// three shipped rules, and the codec's options with the first of them. An Error if what is asked for
/// does not exist.
std::vector<Choice> choices(const jit::Manifest& file, const Request& request,
                            Workbenches& benches);

/// A kernel to check: the steps that it is tried in, and what it is called.
struct Candidate {
  std::string name;  // "signum_int8_float32", then options that are not at their defaults
  emulation::StepCase steps;
  bool plain_options = true;  // of the rule, all at their defaults
};

/// An Error if the choice makes no kernel.
Candidate candidate(const Choice& choice, const jit::Catalog& catalog);

}  // namespace jitstep::tool::check
