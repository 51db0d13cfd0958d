// The state of one parameter: step number and slots under torch's names. jitstep generates the typed classes of the
// built-in rules into rules.h.
#pragma once

#include <torch/optim/optimizer.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jitstep/cast_guard.h"
#include "jitstep/jit/export.h"
#include "jitstep/state_buffers.h"

namespace jitstep {

class TensorFingerprint;
namespace jit {
struct Manifest;
struct Part;
struct ResolvedAuxState;
}  // namespace jit
struct InitialValues;

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

/// Step number and slots of one parameter. An optimizer binds a state to its parameter and converts it to its own
/// formats. A new, copied or loaded state is unbound until an optimizer uses it. Copies share their tensors, as in
/// torch. Slots of an unbound state may be set to any shape, but then all of them must be set. The optimizer that uses
/// the state compares the shapes with its parameter.
class JITSTEP_API ParamState : public torch::optim::OptimizerParamState {
 public:
  /// Makes an unbound state at step 0. `catalog_revision` selects the revision of the rule. 0 means the current one.
  explicit ParamState(std::string rule, int catalog_revision = 0)
      : rule_(std::move(rule)), catalog_revision_(catalog_revision) {}

  /// The name of the rule.
  const std::string& rule() const { return rule_; }

  /// Steps that this parameter has taken. Waits for the device after steps with found_inf.
  const std::int64_t& step() const { return buffers_.t.taken(); }
  std::int64_t& step() { return buffers_.t.taken(); }

  /// Values of a slot, by its name ("v") or by torch's name ("exp_avg_sq"). Returns the storage itself if its dtype is
  /// that of the arithmetic, else a new decoded tensor. Undefined if the rule does not store the slot under its flags.
  torch::Tensor value(const std::string& slot) const { return slot_value(index(slot)); }
  /// Encodes values of the parameter's shape into a slot. An unbound state accepts any shape, but then every slot must
  /// be set. An undefined tensor removes the stored values: set the slot again before the next step.
  void set_value(const std::string& slot, const torch::Tensor& values) {
    set_slot_value(index(slot), values);
  }
  /// The stored codes of a slot, in the parameter's storage order, and the codec's metadata per block. Undefined if
  /// there is none.
  torch::Tensor codes(const std::string& slot) const;
  torch::Tensor meta(const std::string& slot) const;

  /// Auxiliary state of the rule, by its name ("row") or by torch's name, or of a slot's codec ("v.scale"). Returns the
  /// stored tensor itself. It has the parameter's shape without the dimensions that one entry covers: no dimensions for
  /// one number per tensor. An unknown name throws a c10::Error.
  torch::Tensor aux_state(const std::string& name) const;
  /// Sets it from values of that shape. An unbound state accepts any shape.
  void set_aux_state(const std::string& name, const torch::Tensor& values);

  /// True if it stores a residual and is bound to this parameter, whatever its strides are now.
  bool has_residual(const torch::Tensor& parameter) const;
  /// The residual of the weight format, as bytes in the parameter's storage order. Undefined if there is none.
  torch::Tensor residual() const;
  /// The weights that the rule computes with, from parameter and residual: a new tensor in the dtype of the arithmetic.
  torch::Tensor weights() const;

  /// Bytes of all stored tensors.
  std::int64_t bytes() const { return buffers_.bytes(); }
  /// The parameter's index in the order of registration. It selects the parameter's random bits.
  int id() const { return buffers_.id; }
  void set_id(int id);

  std::unique_ptr<torch::optim::OptimizerParamState> clone() const override;
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;

  /// True for the same rule, step and slot values.
  friend bool operator==(const ParamState& a, const ParamState& b) { return a.equals(b); }

  // ---- for the optimizer

  /// True if it has an id, formats and a layout, from the parameter that this or its source was bound to, or from a
  /// checkpoint.
  bool has_id() const { return buffers_.plan != nullptr || from_archive_; }
  /// True if it is bound to a parameter. Then its buffers are those that the kernels read and write.
  bool is_bound() const { return owner_.parameter.defined(); }
  StateBuffers& buffers() {
    escaped_.set();
    return buffers_;
  }
  const StateBuffers& buffers() const {
    escaped_.set();
    return buffers_;
  }
  /// Throws a c10::Error for a step number that kernels cannot continue from.
  void check_step() const;
  /// Throws a c10::Error if the program wrote to this through a cast to one of torch's state classes.
  void check_unharmed() const;
  /// Binds this to a parameter, in the format of a kernel. An empty state gets initial values. Stored values are moved
  /// if the formats are equal, and converted if they differ. If it throws, nothing has changed.
  void bind(const torch::Tensor& parameter, std::shared_ptr<const jit::Plan> plan, int id,
            const InitialValues& initial);
  /// True if the parameter has the dtype, device, sizes and strides that it was bound with, and if no stored tensor has
  /// other storage since.
  bool fits(const torch::Tensor& parameter) const;
  /// True if a user got one of the stored tensors, and so may have replaced its storage.
  bool is_shared() const { return escaped_.is_set(); }

 protected:
  /// The same by slot index.
  torch::Tensor slot_value(std::size_t slot) const;
  void set_slot_value(std::size_t slot, const torch::Tensor& values);

 private:
  CastGuard guard_{
      CastGuard::Finds::undefined_tensor};  // the first member: where torch's have theirs

  struct Layout {
    std::vector<std::int64_t> sizes, strides;
    c10::ScalarType dtype = c10::ScalarType::Float;
    c10::Device device = c10::kCPU;
  };

  std::size_t index(const std::string& slot) const;
  bool equals(const ParamState& other) const;
  bool holds_values(std::size_t slot) const;
  bool same_layout(const torch::Tensor& parameter) const;
  void check_start(const std::vector<double>& initial) const;
  void check_shape(const torch::Tensor& parameter) const;
  void check_complete(const StateBuffers& fresh) const;
  void check_archived_memory(const StateBuffers& fresh) const;
  void check_aux_state(const StateBuffers& fresh) const;
  ParamState snapshot();
  void keep_part(const torch::Tensor& parameter, const jit::Part& part);
  ParamState with_buffers(StateBuffers whole, const torch::Tensor& parameter) const;
  void resize(c10::IntArrayRef sizes);
  void count_given();
  void take_slot(StateBuffers& fresh, std::size_t slot, const torch::Tensor& parameter) const;
  void start_slots(StateBuffers& fresh, const torch::Tensor& parameter,
                   const std::vector<double>& initial) const;
  const jit::ResolvedAuxState& resolved_aux_state(const std::string& name) const;
  std::size_t aux_index(const jit::ResolvedAuxState& field) const;
  void take_memory(StateBuffers& fresh) const;
  void take_extra(StateBuffers& fresh, const torch::Tensor& parameter) const;
  torch::Tensor own_extra(const StateBuffers& held, const torch::Tensor& parameter) const;
  std::shared_ptr<const jit::Plan> held_plan(const StateBuffers& fresh) const;
  torch::Tensor old_values(std::size_t slot, std::shared_ptr<const jit::Plan> plan,
                           const c10::Device& device) const;
  const jit::Manifest& manifest() const;
  const std::vector<jit::Slot>& declared_slots() const;
  bool same_codec(const StateBuffers& fresh, std::size_t slot) const;
  void write_formats(torch::serialize::OutputArchive& archive) const;
  void read_formats(torch::serialize::InputArchive& archive);

  std::string rule_;
  int catalog_revision_;
  StateBuffers buffers_;
  Layout layout_;  // of the parameter when the buffers were made
  StateOwner owner_;
  std::shared_ptr<const std::vector<TensorFingerprint>>
      places_;                 // of the buffers' tensors, once bound
  bool from_archive_ = false;  // unbound, but its buffers have codecs and a layout
  bool is_early_ = false;      // made before the first step, and not bound again since
  Escaped escaped_;

  friend class Optimizer;  // it passes the buffers to its kernels and does not share them
};

/// New, unbound state of a rule: of the generated class if its options have one, else ParamState.
JITSTEP_API std::unique_ptr<ParamState> make_param_state(const std::string& rule,
                                                         int catalog_revision = 0);

}  // namespace jitstep
