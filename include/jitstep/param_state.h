// The state of one parameter: step number and slots under torch's names. jitstep generates the typed classes of the
// built-in rules into rules.h.
#pragma once

#include <torch/optim/optimizer.h>  // torch::Tensor, in a tenth of the compile time of torch/torch.h

#include <cstdint>
#include <memory>
#include <string>

#include "jitstep/cast_guard.h"
#include "jitstep/jit/export.h"

namespace jitstep {

namespace jit {
class Catalog;
}

/// Step number and slots of one parameter. An optimizer binds a state to its parameter and converts it to its own
/// formats. A new, copied or loaded state is unbound until an optimizer uses it. Copies share their tensors, as in
/// torch. Slots of an unbound state may be set to any shape, but then all of them must be set. The optimizer that uses
/// the state compares the shapes with its parameter.
class JITSTEP_API ParamState : public torch::optim::OptimizerParamState {
 public:
  /// Makes an unbound state at step 0.
  explicit ParamState(std::string rule);
  /// The same for the rule of a catalog as it is now.
  ParamState(std::string rule, const jit::Catalog& catalog);
  ParamState(const ParamState& other);
  ParamState(ParamState&& other);
  ParamState& operator=(const ParamState& other);
  ParamState& operator=(ParamState&& other);
  ~ParamState() override;

  /// The name of the rule.
  const std::string& rule() const;

  /// Steps that this parameter has taken. Waits for the device after steps with found_inf.
  const std::int64_t& step() const;
  std::int64_t& step();

  /// Values of a slot, by its name ("v") or by torch's name ("exp_avg_sq"). Returns the storage itself if its dtype is
  /// that of the arithmetic, else a new decoded tensor. Undefined if the rule does not store the slot under its flags.
  torch::Tensor value(const std::string& slot) const;
  /// Encodes values of the parameter's shape into a slot. An unbound state accepts any shape, but then every slot must
  /// be set. An undefined tensor removes the stored values: set the slot again before the next step.
  void set_value(const std::string& slot, const torch::Tensor& values);
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

  /// True if this state stores a residual and is bound to `parameter`, even if the parameter's strides have changed.
  bool has_residual(const torch::Tensor& parameter) const;
  /// The residual of the weight format, as bytes in the parameter's storage order. Undefined if there is none.
  torch::Tensor residual() const;
  /// The weights that the rule computes with, from parameter and residual: a new tensor in the dtype of the arithmetic.
  torch::Tensor weights() const;

  /// Bytes of all stored tensors.
  std::int64_t bytes() const;
  /// The parameter's index in the order of registration. It selects the parameter's random bits.
  int id() const;

  std::unique_ptr<torch::optim::OptimizerParamState> clone() const override;
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;

  /// True for the same rule, step and slot values.
  friend bool operator==(const ParamState& a, const ParamState& b) { return a.equals(b); }

  // ---- for jitstep itself

  /// Its definition is not installed.
  struct Data;
  Data& data() { return *data_; }
  const Data& data() const { return *data_; }
  /// False if the program wrote to this through a cast to one of torch's state classes.
  bool is_intact() const { return guard_.is_intact(); }

 protected:
  /// As value() and set_value(), by slot index.
  torch::Tensor slot_value(std::size_t slot) const;
  void set_slot_value(std::size_t slot, const torch::Tensor& values);

 private:
  CastGuard guard_{
      CastGuard::Finds::undefined_tensor};  // the first member: where torch's have theirs

  bool equals(const ParamState& other) const;

  std::unique_ptr<Data> data_;  // never null
};

/// New, unbound state of a rule: of the generated class if its options have one, else ParamState.
/// The rule is that of the catalog as it is now.
JITSTEP_API std::unique_ptr<ParamState> make_param_state(const std::string& rule,
                                                         const jit::Catalog& catalog);

}  // namespace jitstep
