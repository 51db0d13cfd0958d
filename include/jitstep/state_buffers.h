// What the kernels keep for one parameter between steps, as torch tensors.
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

/// The state of one parameter. A slot's codes lie in the parameter's storage order; a slot that is
/// kept as wide as the arithmetic has the parameter's sizes and strides, the others are bytes.
struct JITSTEP_API StateBuffers {
  /// What is stored of one slot.
  struct Slot {
    torch::Tensor codes;  // undefined: the slot is left out
    torch::Tensor meta;   // undefined: the codec has none
  };

  /// One field of memory; [t & 1] is written in step t.
  struct AuxState {
    std::string key;  // ResolvedAuxState::key
    std::array<torch::Tensor, 2> buffers;
  };

  jit::StateFormat format;                // how the tensors are kept
  std::shared_ptr<const jit::Plan> plan;  // the kernel they are for, of this format; null: none yet
  std::vector<Slot> slots;
  std::vector<AuxState> aux_state;  // one for each of the plan's
  std::vector<double> hyper;  // of the group, when the plan was chosen, if some codec takes numbers
  torch::Tensor residual;     // of the weight format; undefined: none
  bool residual_is_set = false;  // where `t` is 0: it is of steps before the slots came
  std::vector<double> initial;   // what slots hold before the first step; empty: nothing
  StepCount t;                   // steps taken
  int id = 0;                    // order of add_parameter; names the random bits
  int revision = 0;              // to be raised whenever the plan or a tensor is replaced

  /// Visits codes, meta, memory and extra, undefined tensors too, always in the same order.
  template <class Visit>
  void for_each_tensor(Visit visit) const {
    for (const Slot& slot : slots) visit(slot.codes), visit(slot.meta);
    for (const AuxState& field : aux_state) visit(field.buffers[0]), visit(field.buffers[1]);
    visit(residual);
  }
  /// Of all these tensors.
  std::int64_t bytes() const;
};

/// New state for a parameter: zeros, and memory at its initial values. `initial` has one value for
/// each planned memory field.
StateBuffers make_state(const torch::Tensor& p, std::shared_ptr<const jit::Plan> plan, int id,
                        const std::vector<double>& initial_memory);

/// A state that holds nothing yet: enough to choose the kernels of its parameter.
StateBuffers state_outline(std::shared_ptr<const jit::Plan> plan);

/// The memory of new state alone.
std::vector<StateBuffers::AuxState> make_aux_state(const torch::Tensor& p, const jit::Plan& plan,
                                                   const std::vector<double>& initial);

/// A parameter with its state in the kernels' words; null where nothing is held. g_strides: the
/// gradient's, in p's logical order.
jit::StepTensor step_tensor(const torch::Tensor& p, const StateBuffers& state,
                            torch::IntArrayRef g_strides);

/// For `revision`: never the same twice, as a new state may lie where an old one was.
int next_revision();

/// A c10::Error for values below 0 of a slot that is never negative: formats without signs would each make something
/// else of them. Undefined ones have none.
void check_sign(const jit::Slot& slot, const torch::Tensor& values);

/// The values of a slot, of a state with a plan: the codes themselves where they are values, else a
/// new tensor of the parameter's shape and layout, of the arithmetic's dtype.
torch::Tensor decode_slot(const StateBuffers& state, const torch::Tensor& p, int slot);

/// The weights of such a state as the rule sees them, from the parameter and what is kept beside it: a new
/// tensor of the parameter's shape and layout, of the arithmetic's dtype.
torch::Tensor decode_weights(const StateBuffers& state, const torch::Tensor& p);

/// A c10::Error for a slot of such a state whose tensors were changed, so that no kernel can read them.
void check_slots(const StateBuffers& state, const torch::Tensor& p);

/// Sets a slot of such a state from values of the parameter's shape; one that was dropped, or that no kernel can
/// read, is made anew.
void encode_slot(StateBuffers& state, const torch::Tensor& p, int slot,
                 const torch::Tensor& values);

}  // namespace jitstep
