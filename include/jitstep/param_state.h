// The state of one parameter as torch's users see it: step and slots under torch's names. The typed
// classes of the shipped rules are generated into rules.h.
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
struct ResolvedAuxState;
}  // namespace jit
struct InitialValues;

/// True once a state tensor was returned to the user or copied. Never reset.
class Escaped {
 public:
  Escaped() = default;
  /// A copy and its source are both shared; what is moved takes the mark along.
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

  /// Reading a state sets it, and several threads may read one.
  void set() const noexcept { set_.store(true, std::memory_order_relaxed); }
  bool is_set() const noexcept { return set_.load(std::memory_order_relaxed); }

 private:
  mutable std::atomic<bool> set_ = false;
};

/// The parameter that a state is bound to. A copy of the state is bound to none, but knows whose state it was.
class StateOwner {
 public:
  StateOwner() = default;
  /// Owned by parameter p.
  explicit StateOwner(const torch::Tensor& p) : parameter(p), source_(p.getIntrusivePtr()) {}
  StateOwner(const StateOwner& other) noexcept : source_(other.source_) {}  ///< Of none.
  StateOwner(StateOwner&&) noexcept = default;
  /// Of none, as a copy.
  StateOwner& operator=(const StateOwner& other) noexcept { return *this = StateOwner(other); }
  StateOwner& operator=(StateOwner&&) noexcept = default;
  ~StateOwner() = default;

  torch::Tensor parameter;  // undefined: none

  /// The last parameter that it, or what it is a copy of, was bound to. Undefined: none, or it is gone.
  torch::Tensor source() const {
    return source_ ? torch::Tensor(source_->lock()) : torch::Tensor();
  }

 private:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  std::optional<Weak> source_;  // does not keep the memory of a parameter
};

/// Step number and slots of one parameter. The optimizer binds a state to its parameter and converts it to its own
/// formats. A state that was made by hand, copied or read from an archive is unbound until an optimizer takes it.
/// Copies share their tensors, as torch's do. Their slots may be set to values of any shape, all of them then; the
/// optimizer that takes the copy compares them with its parameter.
class JITSTEP_API ParamState : public torch::optim::OptimizerParamState {
 public:
  /// Unbound state of a rule, no step taken: of the rule as it is in a revision of the catalog, by default
  /// as it is now.
  explicit ParamState(std::string rule, int catalog_revision = 0)
      : rule_(std::move(rule)), catalog_revision_(catalog_revision) {}

  /// The rule it is state of.
  const std::string& rule() const { return rule_; }

  /// Steps this parameter has taken; waits for the device after steps with found_inf.
  const std::int64_t& step() const { return buffers_.t.taken(); }
  std::int64_t& step() { return buffers_.t.taken(); }

  /// The values of a slot, by its name ("v") or torch's ("exp_avg_sq"): the storage itself where it
  /// is as wide as the arithmetic, else decoded into a new tensor. Undefined if it is left out.
  torch::Tensor value(const std::string& slot) const { return slot_value(index(slot)); }
  /// Encodes values of the parameter's shape into a slot; an unbound state takes values of any shape, and each other
  /// slot must then be set, too. An undefined tensor drops what it holds: set it again before the next step.
  void set_value(const std::string& slot, const torch::Tensor& values) {
    set_slot_value(index(slot), values);
  }
  /// What is stored for a slot: codes in the parameter's storage order, and what its codec keeps
  /// for each block. Undefined if there is none.
  torch::Tensor codes(const std::string& slot) const;
  torch::Tensor meta(const std::string& slot) const;

  /// What the rule keeps beside the slots, by its name ("row") or torch's, or what a slot's codec keeps
  /// ("v.scale"): the memory itself, of the parameter's shape without the dimensions that one entry covers
  /// (none for a number of the whole tensor). A c10::Error if there is none of that name.
  torch::Tensor aux_state(const std::string& name) const;
  /// Sets it from values of that shape; of any shape if the state is unbound.
  void set_aux_state(const std::string& name, const torch::Tensor& values);

  /// Whether it keeps something beside this parameter, and is bound to it: in whatever order that lies now.
  bool has_residual(const torch::Tensor& parameter) const;
  /// What the weight format keeps beside the parameter, as bytes in its storage order. Undefined: nothing.
  torch::Tensor residual() const;
  /// The parameter as the rule sees it, from what is kept beside it: a new tensor, as wide as the arithmetic.
  torch::Tensor weights() const;

  /// Bytes of everything kept.
  std::int64_t bytes() const { return buffers_.bytes(); }
  /// The order in which the optimizer got the parameter; names its random bits.
  int id() const { return buffers_.id; }
  void set_id(int id);

  std::unique_ptr<torch::optim::OptimizerParamState> clone() const override;
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;

  /// Same rule, step and slot values.
  friend bool operator==(const ParamState& a, const ParamState& b) { return a.equals(b); }

  // ---- for the optimizer

  /// Whether it has an id, formats and a layout: of the parameter that it, or what it is a copy of, was bound to, or an
  /// archive's.
  bool has_id() const { return buffers_.plan != nullptr || from_archive_; }
  /// Whether it belongs to a parameter, and what the kernels read and write.
  bool is_bound() const { return owner_.parameter.defined(); }
  StateBuffers& buffers() {
    escaped_.set();
    return buffers_;
  }
  const StateBuffers& buffers() const {
    escaped_.set();
    return buffers_;
  }
  /// A c10::Error for a step number that kernels cannot go on from.
  void check_step() const;
  /// A c10::Error if somebody has written to this through a cast to a state class of torch's.
  void check_unharmed() const;
  /// Makes this the state of a parameter in a kernel's format: fresh if nothing is held, else
  /// what is held, moved where the formats are the same and converted where they differ. If it
  /// throws, nothing has changed.
  void bind(const torch::Tensor& parameter, std::shared_ptr<const jit::Plan> plan, int id,
            const InitialValues& initial);
  /// Whether the parameter still has the dtype, device, sizes and strides that it was bound with, and
  /// everything kept still lies where it lay.
  bool fits(const torch::Tensor& parameter) const;
  /// Whether a user was given a tensor of what is kept, and may have given it other memory.
  bool is_shared() const { return escaped_.is_set(); }

 protected:
  /// The same by the number of the slot.
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
  void resize(torch::IntArrayRef sizes);
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

  friend class Optimizer;  // takes the buffers for its kernels, and shares them with nobody
};

/// New, unbound state of a rule: of the generated class where its options are of a generated one,
/// else generic.
JITSTEP_API std::unique_ptr<ParamState> make_param_state(const std::string& rule,
                                                         int catalog_revision = 0);

/// The generated state class of a shipped rule, or null. Defined in the generated rules.cpp.
JITSTEP_API std::unique_ptr<ParamState> make_shipped_state(const std::string& rule);

}  // namespace jitstep
