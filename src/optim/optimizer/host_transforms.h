// Registry of host transforms, and the ones that ship.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "jitstep/library.h"

namespace jitstep {

/// A transform as optimizers call it: it replaces the values of all parameters of one group and device. It may batch
/// parameters if no result depends on the other parameters. Otherwise like ParameterTransform.
using GroupTransform = std::function<void(const std::vector<TransformCall>& calls)>;

/// The transform of this name. Throws a c10::Error that lists the known names if there is none. Thread-safe.
GroupTransform find_host_transform(const std::string& rule, const std::string& name);

/// `newton_schulz`: replaces each matrix in `values` by an approximation of the nearest orthogonal matrix, times the
/// factor of adjust_lr_fn for its sizes. Source: torch 2.13's Muon. Here, matrices of equal sizes (or transposed sizes)
/// share batched products. Options: ns_coefficients, ns_steps, eps, ns_dtype (bf16 or real) and adjust_lr_fn (original
/// or match_rms_adamw). Without the option adjust_lr_fn, there is no such factor.
void newton_schulz(const std::vector<torch::Tensor>& values, const jit::OptionValues& options);

/// `shampoo`: preconditions each gradient by the inverse roots of its statistics. Matrices l0 to l3 (statistics) and
/// root0 to root3, one per dimension. A dimension without matrices is left out. Options: precondition_frequency.
/// Source: pytorch_optimizer 4.1.0.
void shampoo(const TransformCall& call);

/// The transforms of SOAP: the gradient and the momentum into the eigenbasis of Shampoo's statistics, and the update
/// back. Matrices gg0 to gg3 (statistics) and q0 to q3 (eigenbases), one per dimension. Options: betas, shampoo_beta
/// and precondition_frequency. Step 1 only computes the first eigenbases. Columns of a basis keep their order, unlike
/// the original's, which also orders the second moment. Source: nikhilvyas/SOAP.
void soap_gradient(const TransformCall& call);
void soap_momentum(const TransformCall& call);
void soap_update(const TransformCall& call);

}  // namespace jitstep
