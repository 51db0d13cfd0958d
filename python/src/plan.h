// The kernel and the state layout of one parameter, and conversions of its stored state.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exchange.h"
#include "group.h"
#include "jitstep/jit/layout.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/step.h"

namespace jitstep::python {

/// A state buffer of a parameter: what its tensors must be.
struct SlotInfo {
  std::string name;            // torch's
  std::string format;          // the codec as JSON text; empty if the slot is not stored
  bool plain;                  // stored as values, in a tensor of the parameter's shape
  std::int64_t codes, scales;  // bytes, if it is not plain
  int block;                   // elements that share a scale
  double initial;              // before step 1
};

/// A field of auxiliary state: what its tensor must be.
struct AuxInfo {
  std::string name;  // torch's; of a codec: "exp_avg.row"
  std::vector<std::int64_t> sizes;
  bool is_double;
  double initial;
  int slot;        // the slot whose codec has the field; -1: the rule
  bool is_matrix;  // a matrix of state, which has one buffer; without entries it is not stored
};

/// Addresses of one parameter and its state, as tensors. Null tensors are not stored.
struct Buffers {
  nb::object p;
  std::vector<std::pair<nb::object, nb::object>> slots;  // codes or values, and scales
  std::vector<nb::object> aux;  // [2, entries...]; a matrix: [1, rows, columns]
  nb::object residual;
  bool residual_is_set = false;  // at step 0: it is valid, from steps before the slots existed
};

/// The plan of one parameter.
class ParamPlan {
 public:
  /// For a parameter of a group. `number`: its index in the optimizer. `whole`: the sizes of the whole parameter if `p`
  /// is a shard, so that all shards have the same formats and flags; else empty. Throws an Error if the rule does not
  /// support the parameter.
  ParamPlan(Group& group, nb::handle p, int number, std::vector<std::int64_t> whole);

  /// The same with another format of a slot (JSON), another weight format, or other strides of the parameter, such as
  /// those of a checkpoint.
  ParamPlan with_codec(int slot, const std::string& format) const;
  ParamPlan with_weights(const std::string& format) const;
  ParamPlan with_strides(const std::vector<std::int64_t>& strides) const;
  /// The same for a shard whose element 0 has this number in the whole tensor. Random bits depend on it.
  ParamPlan with_offset(std::int64_t offset) const;

  std::vector<SlotInfo> slots() const;
  std::vector<AuxInfo> aux() const;
  /// True if codes of this format are valid for this plan's slot.
  bool same_codes(int slot, const std::string& format) const;
  const std::string& name() const { return plan->name; }
  const std::string& weights() const { return plan->spec.state.weights; }
  /// Bytes of the weight format's residual, for an element and in all.
  int residual_bytes() const { return plan->weights->residual_bytes(); }
  std::int64_t residual() const { return layout.residual; }
  /// Bytes of all state.
  std::int64_t bytes() const { return layout.bytes(); }
  /// Sizes of the parameter, and strides of its state.
  const std::vector<std::int64_t>& sizes() const { return shape.sizes; }
  std::vector<std::int64_t> compact_strides() const { return jit::compact_strides(shape); }

  /// True if a step needs the gradients of all parameters, as with max_grad_norm.
  bool needs_all_tensors() const;
  /// True if a shard of the parameter can be stepped alone.
  bool is_elementwise() const;

  /// Decodes or encodes a slot, or the weights (slot -1), after step `t`, on the parameter's device. `values` is a
  /// tensor of float (double for float64 parameters) in the parameter's storage order, on that device.
  void decode(const Buffers& from, std::int64_t t, int slot, nb::handle values) const;
  void encode(const Buffers& to, std::int64_t t, int slot, nb::handle values) const;

  /// The tensor of a step with these buffers.
  jit::StepTensor tensor(const Buffers& buffers) const;

  std::shared_ptr<const jit::Plan> plan;
  jit::Shape shape;
  jit::StateLayout layout;
  std::vector<double> slot_initial, hyper;
  int number = 0;
  std::int64_t offset = 0;
  Device device;  // of the parameter

 private:
  ParamPlan with(const jit::KernelSpec& spec) const;
  std::string slot_name(int component) const;
};

/// True if a kernel must compute the addresses of this tensor from indices.
bool is_strided(const jit::StepTensor& tensor);

}  // namespace jitstep::python
