// The host transforms there are.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "jitstep/host_transform.h"

namespace jitstep {

/// A stage as optimizers call it: with the values of all parameters of one group and device, which it replaces. It may
/// take them together as long as no result depends on which there are. Otherwise as TransformFunction.
using GroupTransform =
    std::function<void(const std::vector<torch::Tensor>& values, const jit::OptionValues& options)>;

/// The stage that a rule names. A c10::Error that lists those known if there is none.
GroupTransform find_host_transform(const std::string& rule, const std::string& name);

/// `newton_schulz`: makes each of `values` the orthogonal matrix nearest to it, roughly, times what the rate is
/// multiplied by for a matrix of its sizes; as torch 2.13's Muon, but matrices of equal sizes (transposed ones too) go
/// through the products together. Options: ns_coefficients, ns_steps, eps, ns_dtype (bf16 or real) and adjust_lr_fn
/// (original or match_rms_adamw).
void newton_schulz(const std::vector<torch::Tensor>& values, const jit::OptionValues& options);

}  // namespace jitstep
