// Operations on the state of one parameter: create, encode, decode, and describe it to kernels.
#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "optim/state/state_buffers.h"

namespace jitstep {
namespace jit {
struct Part;
struct Slot;
struct StepTensor;
}  // namespace jit

/// New state for a parameter: zeros, and auxiliary state at its initial values. `initial_aux_state` has one value per
/// field of Plan::aux_state.
StateBuffers make_state(const torch::Tensor& p, std::shared_ptr<const jit::Plan> plan, int id,
                        const std::vector<double>& initial_aux_state);

/// State without tensors, which is enough to select the kernels of its parameter.
StateBuffers state_outline(std::shared_ptr<const jit::Plan> plan);

/// Only the auxiliary state of new state.
std::vector<StateBuffers::AuxState> make_aux_state(const torch::Tensor& p, const jit::Plan& plan,
                                                   const std::vector<double>& initial);

/// A parameter and its state as the kernels need it, with null for undefined tensors. `g_strides` are the gradient's
/// strides, in the parameter's logical order.
jit::StepTensor step_tensor(const torch::Tensor& p, const StateBuffers& state,
                            torch::IntArrayRef g_strides);

/// The state of elements `part` of a parameter, from the state of the whole parameter. Copies. `p`: the whole
/// parameter. The state must have a plan, which can be cut (jit::part_grain) unless the part is empty or all of it.
StateBuffers part_of_state(const StateBuffers& whole, const torch::Tensor& p,
                           const jit::Part& part);

/// A unique number for `revision`, because new state may have the address of freed state.
std::int64_t next_revision();

/// Throws a c10::Error for negative values of an unsigned slot, which unsigned formats would encode differently.
/// Accepts an undefined tensor.
void check_sign(const jit::Slot& slot, const torch::Tensor& values);

/// The values of a slot of a state with a plan. Returns the codes themselves if they are plain values, else a new
/// tensor with the parameter's shape and layout and the dtype of the arithmetic.
torch::Tensor decode_slot(const StateBuffers& state, const torch::Tensor& p, int slot);

/// The weights that the rule computes with, from the parameter and its residual: a new tensor with the parameter's
/// shape and layout and the dtype of the arithmetic. The state must have a plan.
torch::Tensor decode_weights(const StateBuffers& state, const torch::Tensor& p);

/// Throws a c10::Error if a tensor of a slot was changed so that no kernel can read it. The state must have a plan.
void check_slots(const StateBuffers& state, const torch::Tensor& p);

/// Encodes values of the parameter's shape into a slot. Allocates the slot's tensors if they are undefined or if no
/// kernel can read them. The state must have a plan.
void encode_slot(StateBuffers& state, const torch::Tensor& p, int slot,
                 const torch::Tensor& values);

}  // namespace jitstep
