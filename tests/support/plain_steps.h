// Steps of plain arrays on the CPU, for tests that evaluate the same formulas themselves.
#pragma once

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "jitstep/jit/engine.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/state_storage.h"
#include "jitstep/jit/step.h"

namespace jitstep::support {

/// A test's own templates in addition to the shipped ones. Other tests do not see them.
struct OwnTemplates {
  jit::Engine engine{jit::Settings::from_environment()};
  jit::Catalog catalog{engine.templates()};

  /// Texts by name, such as "rules/probe.cuh".
  explicit OwnTemplates(const std::map<std::string, std::string>& texts = {}) {
    for (const auto& [name, text] : texts) engine.templates().add(name, text);
  }
};

/// Tensors that step together with one kernel: parameters of type P and gradients of type G, as the spec says. They
/// start as zeros. Memory that a kernel must not read before step 1 starts as garbage. The host transform returns its
/// input.
template <class P, class G = P>
class PlainSteps {
 public:
  using Sizes = std::vector<std::int64_t>;

  std::vector<std::vector<P>> p;
  std::vector<std::vector<G>> g;
  std::vector<std::array<const void*, kMaxInputs>> given;  // inputs of each tensor; empty: none

  /// `offset`: number of each tensor's first element in the unsharded tensor.
  PlainSteps(OwnTemplates& own, jit::Backend& backend, const jit::KernelSpec& spec,
             const jit::OptionValues& options, const std::vector<Sizes>& sizes,
             std::int64_t offset = 0)
      : options_(options),
        plan_(jit::resolve(spec, own.catalog)),
        shared_state_(
            std::make_unique<jit::SharedState>(jit::make_shared_state(backend, options))) {
    for (const Sizes& one : sizes) add(backend, one, offset);
    step_ = std::make_unique<jit::Step>(backend, std::vector<jit::Batch>{{plan_, tensors_}},
                                        shared_state_.get());
  }

  /// One step with the options of the constructor.
  void step(std::int64_t t, std::uint64_t seed = 0) {
    step(std::vector{options_.at_step(t, seed)});
  }

  /// One step with given hyperparameters. Tensor i uses sets[set_of[i]], or sets[0] if set_of is empty.
  void step(const std::vector<HyperParams>& sets, const std::vector<int>& set_of = {}) {
    std::vector<jit::StepInput> inputs;
    for (std::size_t i = 0; i < g.size(); ++i)
      inputs.push_back(
          {.g = g[i].data(),
           .hyper_index = set_of.empty() ? 0 : set_of[i],
           .inputs = given.empty() ? std::array<const void*, kMaxInputs>{} : given[i]});
    step_->run(inputs, sets, [](const auto&) {});
  }

  /// Switches to another mode after step t.
  void switch_mode(jit::Mode to, std::int64_t t, std::uint64_t seed = 0) {
    step_->run(to, std::vector<jit::StepInput>(p.size()), {options_.at_step(t, seed)});
  }

  const jit::Plan& plan() const { return plan_; }

  /// The state of tensor i, valid as long as this object.
  const jit::StepTensor& tensor(std::size_t i) const { return tensors_[i]; }
  template <class T>
  const T* codes(std::size_t i, std::size_t slot) const {
    return static_cast<const T*>(tensors_[i].slots[slot].codes);
  }
  template <class T>
  const T* meta(std::size_t i, std::size_t slot) const {
    return static_cast<const T*>(tensors_[i].slots[slot].meta);
  }
  /// The buffer of an auxiliary state field that step t writes.
  template <class T>
  const T* aux_state(std::size_t i, std::size_t field, std::int64_t t) const {
    return static_cast<const T*>(tensors_[i].aux_state[field][t & 1]);
  }

 private:
  void add(jit::Backend& backend, const Sizes& sizes, std::int64_t offset) {
    std::int64_t n = 1;
    for (const std::int64_t size : sizes) n *= size;
    p.emplace_back(n);
    g.emplace_back(n);
    states_.push_back(std::make_unique<jit::StateStorage>(backend, plan_, options_, sizes));
    tensors_.push_back(states_.back()->tensor(p.back().data(), static_cast<int>(tensors_.size())));
    jit::StepTensor& tensor = tensors_.back();
    tensor.offset = offset;
    const auto garbage = [](void* to, std::int64_t bytes) {
      if (bytes > 0) std::memset(to, 0xff, static_cast<std::size_t>(bytes));
    };
    const jit::StateLayout layout =
        jit::state_layout(plan_, tensor.shape, jit::initial_aux_state(plan_, options_));
    for (std::size_t i = 0; i < tensor.slots.size(); ++i) {
      garbage(tensor.slots[i].codes, layout.slots[i].codes);
      garbage(tensor.slots[i].meta, layout.slots[i].meta);
    }
    garbage(tensor.residual, layout.residual);
  }

  jit::OptionValues options_;
  jit::Plan plan_;
  std::unique_ptr<jit::SharedState> shared_state_;
  std::vector<std::unique_ptr<jit::StateStorage>> states_;
  std::vector<jit::StepTensor> tensors_;
  std::unique_ptr<jit::Step> step_;
};

/// The spec of float32 arrays with these options. `codecs` has a codec for each slot of the rule.
inline jit::KernelSpec plain_spec(const jit::OptionValues& options,
                                  const std::vector<std::string>& codecs = {}, int dims = 2) {
  jit::KernelSpec spec{.rule = options.rule().name,
                       .flags = options.flags(dims),
                       .gradient_flags = options.gradient_flags()};
  for (std::size_t i = 0; i < options.rule().slots.size(); ++i) {
    spec.state.slots.emplace_back();
    if (jit::is_stored(options.rule().slots[i], spec.flags))
      spec.state.slots.back() = jit::CodecChoice{i < codecs.size() ? codecs[i] : "fp32"};
  }
  return spec;
}

}  // namespace jitstep::support
