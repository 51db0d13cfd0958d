// The state of one parameter as torch tensors, in the format of a kernel.
#pragma once

#include <torch/optim/optimizer.h>  // has torch::Tensor, at a tenth of torch/torch.h

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/spec.h"
#include "jitstep/step_count.h"

namespace jitstep {
namespace jit {
struct Plan;
struct Slot;
struct StepTensor;
}  // namespace jit

/// The state of one parameter. The codes of a slot are in the parameter's storage order. If they have the dtype of the
/// arithmetic, the tensor has the parameter's sizes and strides. All other codes are byte tensors.
struct JITSTEP_API StateBuffers {
  /// The stored tensors of one slot.
  struct Slot {
    torch::Tensor codes;  // undefined: the rule does not store the slot
    torch::Tensor meta;   // undefined: the codec has no metadata
  };

  /// One field of auxiliary state. Step t writes buffers[t & 1].
  struct AuxState {
    std::string key;  // ResolvedAuxState::key
    std::array<torch::Tensor, 2> buffers;
  };

  jit::StateFormat format;                // format of the tensors
  std::shared_ptr<const jit::Plan> plan;  // the kernel of this format; null: none yet
  std::vector<Slot> slots;
  std::vector<AuxState> aux_state;  // one per field of Plan::aux_state
  std::vector<double> hyper;     // the group's numbers at the plan's choice, if a codec reads any
  torch::Tensor residual;        // of the weight format; undefined: none
  bool residual_is_set = false;  // at t = 0: it is valid, from steps before the slots existed
  std::vector<double> initial;   // of slots at t = 0, for rules with early state; else empty
  StepCount t;                   // steps taken
  int id = 0;                    // order of add_parameter(); selects the random bits
  int revision = 0;              // the caller must change it when it replaces the plan or a tensor

  /// Visits codes, metadata, auxiliary state and residual, including undefined tensors, always in the same order.
  template <class Visit>
  void for_each_tensor(Visit visit) const {
    for (const Slot& slot : slots) visit(slot.codes), visit(slot.meta);
    for (const AuxState& field : aux_state) visit(field.buffers[0]), visit(field.buffers[1]);
    visit(residual);
  }
  /// Of all these tensors.
  std::int64_t bytes() const;
};

/// New state for a parameter: zeros, and auxiliary state at its initial values. `initial_memory` has one value per
/// field of Plan::aux_state.
StateBuffers make_state(const torch::Tensor& p, std::shared_ptr<const jit::Plan> plan, int id,
                        const std::vector<double>& initial_memory);

/// State without tensors, which is enough to select the kernels of its parameter.
StateBuffers state_outline(std::shared_ptr<const jit::Plan> plan);

/// Only the auxiliary state of new state.
std::vector<StateBuffers::AuxState> make_aux_state(const torch::Tensor& p, const jit::Plan& plan,
                                                   const std::vector<double>& initial);

/// A parameter and its state as the kernels need it, with null for undefined tensors. `g_strides` are the gradient's
/// strides, in the parameter's logical order.
jit::StepTensor step_tensor(const torch::Tensor& p, const StateBuffers& state,
                            torch::IntArrayRef g_strides);

/// A unique number for `revision`, because new state may have the address of freed state.
int next_revision();

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
