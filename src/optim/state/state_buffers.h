// The state of one parameter as torch tensors, in the format of a kernel.
#pragma once

#include <torch/optim/optimizer.h>  // torch::Tensor, in a tenth of the compile time of torch/torch.h

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "jitstep/jit/spec.h"
#include "optim/state/step_count.h"

namespace jitstep {
namespace jit {
struct Plan;
}

/// The state of one parameter. The codes of a slot are in the parameter's storage order. If they have the dtype of the
/// arithmetic, the tensor has the parameter's sizes and strides. All other codes are byte tensors.
struct StateBuffers {
  /// The stored tensors of one slot.
  struct Slot {
    torch::Tensor codes;  // undefined: the rule does not store the slot
    torch::Tensor meta;   // undefined: the codec has no metadata
  };

  /// One field of auxiliary state. Step t writes buffers[t & 1]. A matrix of state has one tensor, as both buffers.
  struct AuxState {
    std::string key;  // ResolvedAuxState::key
    std::array<torch::Tensor, 2> buffers;

    bool is_matrix() const { return buffers[0].defined() && buffers[0].is_same(buffers[1]); }
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
  int id = 0;                    // unique in the optimizer; selects random bits, orders sums
  std::int64_t first = 0;        // of a part of a parameter: its first element, in storage order
  std::int64_t whole = 0;        // of a part: elements of the whole parameter; 0: this is no part
  std::int64_t revision = 0;     // the caller must change it when it replaces the plan or a tensor

  /// Visits codes, metadata, auxiliary state and residual, including undefined tensors, always in the same order.
  template <class Visit>
  void for_each_tensor(Visit visit) const {
    for (const Slot& slot : slots) {
      visit(slot.codes);
      visit(slot.meta);
    }
    for (const AuxState& field : aux_state) {
      visit(field.buffers[0]);
      if (!field.is_matrix()) visit(field.buffers[1]);
    }
    visit(residual);
  }
  /// Of all these tensors.
  std::int64_t bytes() const;
  /// Replaces all these tensors by copies in host memory. Keeps those that are there.
  void move_to_host();
};

/// Values of a parameter's state before step 1.
struct InitialValues {
  std::vector<double> slots;      // [slot]
  std::vector<double> aux_state;  // [field of the kernel's plan]
  std::vector<double> hyper;      // HyperParams::hyper; empty unless a codec reads it
};

}  // namespace jitstep
