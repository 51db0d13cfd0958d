// Steps of plain arrays on the CPU, for tests that evaluate the same formulas themselves.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "jitstep/jit/engine.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/shared_state.h"
#include "jitstep/jit/state_storage.h"
#include "jitstep/jit/step.h"

namespace jitstep::support {

/// Templates of a test's own beside the shipped ones, unknown to other tests.
struct OwnTemplates {
  jit::Engine engine{jit::Settings::from_environment()};
  jit::Catalog catalog{engine.templates()};

  /// Texts by name, such as "rules/probe.cuh".
  explicit OwnTemplates(const std::map<std::string, std::string>& texts = {}) {
    for (const auto& [name, text] : texts) engine.templates().add(name, text);
  }
};

/// Tensors that step together, all with the same kernel: parameters of type P, gradients of type G, as
/// the spec says. They begin as zeros, and whatever a kernel must not read before step 1 as garbage. A host
/// stage leaves what it is given as it is.
template <class P, class G = P>
class PlainSteps {
 public:
  using Sizes = std::vector<std::int64_t>;

  std::vector<std::vector<P>> p;
  std::vector<std::vector<G>> g;

  /// `offset`: global number of each tensor's first element.
  PlainSteps(OwnTemplates& own, jit::Backend& backend, const jit::KernelSpec& spec,
             const jit::OptionValues& options, const std::vector<Sizes>& sizes,
             std::int64_t offset = 0)
      : options_(options),
        plan_(jit::resolve(spec, own.catalog)),
        common_(std::make_unique<jit::SharedState>(jit::make_shared_state(backend, options))) {
    for (const Sizes& one : sizes) add(backend, one, offset);
    step_ = std::make_unique<jit::Step>(backend, std::vector<jit::Batch>{{plan_, tensors_}},
                                        common_.get());
  }

  /// One step with the options it was made with.
  void step(std::int64_t t, std::uint64_t seed = 0) {
    step(std::vector{options_.at_step(t, seed)});
  }

  /// One step of numbers made by hand; set_of[i] belongs to tensor i, the first one if left out.
  void step(const std::vector<HyperParams>& sets, const std::vector<int>& set_of = {}) {
    std::vector<jit::StepInput> inputs;
    for (std::size_t i = 0; i < g.size(); ++i)
      inputs.push_back({g[i].data(), set_of.empty() ? 0 : set_of[i], false});
    step_->run(inputs, sets, [](const auto&) {});
  }

  /// To another mode after step t.
  void switch_mode(jit::Mode to, std::int64_t t, std::uint64_t seed = 0) {
    step_->run(to, std::vector<jit::StepInput>(p.size()), {options_.at_step(t, seed)});
  }

  /// The kernel.
  const jit::Plan& plan() const { return plan_; }

  /// What is kept of tensor i, at most as long as this lives.
  const jit::StepTensor& tensor(std::size_t i) const { return tensors_[i]; }
  template <class T>
  const T* codes(std::size_t i, std::size_t slot) const {
    return static_cast<const T*>(tensors_[i].slots[slot].codes);
  }
  template <class T>
  const T* meta(std::size_t i, std::size_t slot) const {
    return static_cast<const T*>(tensors_[i].slots[slot].meta);
  }
  /// A memory field's buffer that step t writes.
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
        jit::state_layout(plan_, tensor.shape, jit::initial_memory(plan_, options_));
    for (std::size_t i = 0; i < tensor.slots.size(); ++i) {
      garbage(tensor.slots[i].codes, layout.slots[i].codes);
      garbage(tensor.slots[i].meta, layout.slots[i].meta);
    }
    garbage(tensor.residual, layout.residual);
  }

  jit::OptionValues options_;
  jit::Plan plan_;
  std::unique_ptr<jit::SharedState> common_;
  std::vector<std::unique_ptr<jit::StateStorage>> states_;
  std::vector<jit::StepTensor> tensors_;
  std::unique_ptr<jit::Step> step_;
};

/// The spec of float32 arrays under these options, with a codec for each slot of the rule.
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
