// The combinations that changes are checked with, made from what the templates folder holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulation/option_covering_set.h"
#include "emulation/step_case.h"
#include "jitstep/jit/spec.h"

namespace jitstep::support {

/// Every rule with fp32 state and weights; every codec with adamw and with lamb; every weight format
/// and dtype with adamw. No two are the same kernel.
std::vector<jit::KernelSpec> ci_combinations();

/// Options of a rule under which it keeps as many slots as it can, its defaults if they do.
emulation::RuleOptions fullest_options(const std::string& rule);

/// The codecs that a rule is tried in by default: all, or kCodecsOfARule in turn where there are more.
std::vector<std::string> codecs_for(const std::string& rule);
inline constexpr std::size_t kCodecsOfARule = 1;

/// Beyond ci_combinations(), without tensors: every rule with its fullest options in codecs_for() it; every value
/// of its flags, as many at once as go together, in codecs, weight formats and dtypes in turn; every codec in
/// each weight format and dtype with adamw, and with its switches turned.
std::vector<emulation::StepCase> covering_cases();

/// A codec with every option that is true or false the other way than by default.
jit::CodecChoice with_switches_turned(const std::string& codec);

/// The product, without tensors: every rule with every value of its flags, one at a time, in every codec.
std::vector<emulation::StepCase> all_cases();

/// The same number for the same kernel wherever it is computed: what chooses a few of many.
std::uint32_t fixed_hash(const jit::KernelSpec& spec);

}  // namespace jitstep::support
