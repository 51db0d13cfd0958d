// The host stages there are.
#pragma once

#include <string>

#include "jitstep/stage.h"

namespace jitstep {

/// The stage that a rule names. A c10::Error that lists those known if there is none.
StageFunction find_stage(const std::string& rule, const std::string& name);

/// `newton_schulz`: the orthogonal matrix nearest to `values`, roughly, times what the rate is multiplied by
/// for a matrix of its sizes; as torch 2.13's Muon. Options: ns_coefficients, ns_steps, eps, ns_dtype (bf16 or
/// real) and adjust_lr_fn (original or match_rms_adamw).
torch::Tensor newton_schulz(const torch::Tensor& values, const jit::OptionValues& options);

}  // namespace jitstep
