// The combinations that tests run, made from the files of the templates folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulation/option_covering_set.h"
#include "emulation/step_case.h"
#include "jitstep/jit/spec.h"

namespace jitstep::support {

/// Every rule with fp32 state and weights, every codec with adamw and with lamb, and every weight format and dtype with
/// adamw. All kernels are different.
std::vector<jit::KernelSpec> ci_combinations();

/// Options of a rule with as many slots as possible. The defaults if they have that many.
emulation::RuleOptions fullest_options(const std::string& rule);

/// The codecs that a rule is tested with by default: all, or kCodecsOfARule of them, chosen cyclically.
std::vector<std::string> codecs_for(const std::string& rule);
inline constexpr std::size_t kCodecsOfARule = 1;

/// Cases without tensors in addition to ci_combinations(). Every rule with its fullest options in codecs_for() it.
/// Every flag value, as many at once as are compatible, cyclically in codecs, weight formats and dtypes. Every codec in
/// each weight format and dtype with adamw, and with its boolean options inverted.
std::vector<emulation::StepCase> covering_cases();

/// A codec with every boolean option inverted.
jit::CodecChoice with_flags_inverted(const std::string& codec);

/// The full product, without tensors: every rule with every flag value, one at a time, in every codec.
std::vector<emulation::StepCase> all_cases();

/// A hash that is the same for the same kernel on every computer. It selects a few of many cases.
std::uint32_t fixed_hash(const jit::KernelSpec& spec);

}  // namespace jitstep::support
