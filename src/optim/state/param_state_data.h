// The data of a ParamState, and the operations on it that only the optimizer uses.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jitstep/param_state.h"
#include "optim/state/state_buffers.h"
#include "optim/tensor/tensor_fingerprint.h"

namespace jitstep {
namespace jit {
struct Part;
struct ResolvedAuxState;
}  // namespace jit

/// True once a state tensor was returned to the user or copied. Never reset.
class Escaped {
 public:
  Escaped() = default;
  /// A copy and its source share their tensors, so both are marked. A move keeps the mark.
  Escaped(const Escaped& other) noexcept : set_(true) { other.set(); }
  Escaped(Escaped&& other) noexcept : set_(other.is_set()) {}
  Escaped& operator=(const Escaped& other) noexcept {
    other.set(), set();
    return *this;
  }
  Escaped& operator=(Escaped&& other) noexcept {
    set_.store(other.is_set(), std::memory_order_relaxed);
    return *this;
  }
  ~Escaped() = default;

  /// Const and atomic because reading a state sets it, possibly in several threads.
  void set() const noexcept { set_.store(true, std::memory_order_relaxed); }
  bool is_set() const noexcept { return set_.load(std::memory_order_relaxed); }

 private:
  mutable std::atomic<bool> set_ = false;
};

/// The parameter that a state is bound to. A copy is unbound, but remembers the parameter as its source.
class StateOwner {
 public:
  StateOwner() = default;
  /// Bound to parameter p.
  explicit StateOwner(const torch::Tensor& p) : parameter(p), source_(p.getIntrusivePtr()) {}
  StateOwner(const StateOwner& other) noexcept : source_(other.source_) {}  ///< Unbound.
  StateOwner(StateOwner&&) noexcept = default;
  /// Unbound, as a copy.
  StateOwner& operator=(const StateOwner& other) noexcept { return *this = StateOwner(other); }
  StateOwner& operator=(StateOwner&&) noexcept = default;
  ~StateOwner() = default;

  torch::Tensor parameter;  // undefined: unbound

  /// The last parameter that this, or the state it was copied from, was bound to. Undefined if there was none or if it
  /// was freed.
  torch::Tensor source() const {
    return source_ ? torch::Tensor(source_->lock()) : torch::Tensor();
  }

 private:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  std::optional<Weak> source_;  // weak, so that it does not keep the parameter's storage alive
};

/// The data of one ParamState. It has the same address for the lifetime of the state, also after an assignment.
struct ParamState::Data {
  /// Metadata of the parameter when the buffers were made.
  struct Layout {
    std::vector<std::int64_t> sizes, strides;
    c10::ScalarType dtype = c10::ScalarType::Float;
    c10::Device device = c10::kCPU;
  };

  std::string rule;
  std::shared_ptr<const jit::Catalog> rule_catalog = {};  // a snapshot; empty: the default catalog
  StateBuffers buffers = {};
  Layout layout = {};
  StateOwner owner = {};
  // Of the buffers' tensors, once bound.
  std::shared_ptr<const std::vector<TensorFingerprint>> fingerprints = {};
  bool from_archive = false;  // unbound, but its buffers have codecs and a layout
  bool is_early = false;      // made before the first step, and not bound again since
  Escaped escaped = {};

  std::int64_t& step() const { return buffers.t.taken(); }
  /// True if it has an id, formats and a layout, from the parameter that this or its source was bound to, or from a
  /// checkpoint.
  bool has_id() const { return buffers.plan != nullptr || from_archive; }
  /// True if it is bound to a parameter. Then its buffers are those that the kernels read and write.
  bool is_bound() const { return owner.parameter.defined(); }
  /// Throws a c10::Error for a step number that kernels cannot continue from.
  void check_step() const;
  /// Binds this to a parameter, in the format of a kernel. An empty state gets initial values. Stored values are moved
  /// if the formats are equal, and converted if they differ. If it throws, nothing has changed.
  void bind(const torch::Tensor& parameter, std::shared_ptr<const jit::Plan> plan, int id,
            const InitialValues& initial);
  /// True if the parameter has the dtype, device, sizes and strides that it was bound with, and if no stored tensor has
  /// other storage since.
  bool fits(const torch::Tensor& parameter) const;
  /// A copy for the rollback of a failed step. Only the optimizer has it, so the copy does not mark its source.
  Data snapshot();
  /// Replaces the state of a whole parameter by that of some of its elements. The next bind() binds it to them.
  void reduce_to_part(const torch::Tensor& parameter, const jit::Part& part);

  const jit::Catalog& catalog() const;
  const jit::Manifest& manifest() const;
  const std::vector<jit::Slot>& declared_slots() const;
  /// The number of a slot, by its name or torch's name.
  std::size_t index(const std::string& slot) const;
  torch::Tensor slot_value(std::size_t slot) const;
  void set_slot_value(std::size_t slot, const torch::Tensor& values);
  /// Prepares for values of a parameter of another shape.
  void resize(c10::IntArrayRef sizes);
  bool holds_values(std::size_t slot) const;
  bool same_layout(const torch::Tensor& parameter) const;
  const jit::ResolvedAuxState& resolved_aux_state(const std::string& name) const;
  std::size_t aux_index(const jit::ResolvedAuxState& field) const;
  void write(torch::serialize::OutputArchive& archive) const;
  /// Into a new object.
  void read(torch::serialize::InputArchive& archive);

 private:
  void write_formats(torch::serialize::OutputArchive& archive) const;
  void read_coded_slots(torch::serialize::InputArchive& archive);
  void read_aux_state(torch::serialize::InputArchive& archive);
  void read_formats(torch::serialize::InputArchive& archive);
  void count_step_of_user_values();
  void check_start(const std::vector<double>& initial) const;
  void check_shape(const torch::Tensor& parameter) const;
  void check_complete(const StateBuffers& fresh) const;
  void check_archived_aux_state(const StateBuffers& fresh) const;
  void check_aux_state(const StateBuffers& fresh) const;
  void convert_slot(StateBuffers& fresh, std::size_t slot, const torch::Tensor& parameter) const;
  void initialize_new_slots(StateBuffers& fresh, const torch::Tensor& parameter,
                            const std::vector<double>& initial) const;
  void copy_aux_state(StateBuffers& fresh) const;
  void convert_residual(StateBuffers& fresh, const torch::Tensor& parameter) const;
  torch::Tensor valid_residual(const StateBuffers& stored, const torch::Tensor& parameter) const;
  std::shared_ptr<const jit::Plan> stored_plan(const StateBuffers& fresh) const;
  torch::Tensor decoded_values(std::size_t slot, std::shared_ptr<const jit::Plan> plan,
                               const c10::Device& device) const;
  bool same_codec(const StateBuffers& fresh, std::size_t slot) const;
};

/// Throws a c10::Error if the program wrote to the state through a cast to one of torch's state classes.
void check_intact(const ParamState& state);

}  // namespace jitstep
