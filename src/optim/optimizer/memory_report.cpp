#include "jitstep/memory_report.h"

#include <torch/types.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "jit/base/text.h"
#include "jitstep/jit/catalog.h"
#include "optim/optimizer/optimizer_impl.h"
#include "optim/tensor/kernel_tensors.h"

namespace jitstep {
namespace {

using Kind = MemoryReport::Kind;
using Entries = std::vector<MemoryReport::Entry>;

std::string dtype_name(const torch::Tensor& tensor) {
  const torch::ScalarType type = tensor.scalar_type();
  return is_supported(type) ? jit::to_string(dtype_of(tensor)) : c10::toString(type);
}

// Counts the bytes of tensors, without those that were counted before.
class Measure {
 public:
  // All tensors of a storage together count at most its bytes, because an expanded tensor repeats elements.
  std::int64_t bytes_of(const torch::Tensor& tensor) {
    const c10::Storage& storage = tensor.storage();
    const auto all = static_cast<std::int64_t>(tensor.nbytes());
    if (!seen_.emplace(storage.data(), tensor.storage_offset(), all).second) return 0;
    std::int64_t& left =
        left_.try_emplace(storage.data(), static_cast<std::int64_t>(storage.nbytes()))
            .first->second;
    const std::int64_t bytes = std::min(all, left);
    left -= bytes;
    return bytes;
  }

  // An undefined tensor adds no entry.
  void add(Entries& entries, Kind kind, const std::string& name, const std::string& format,
           const torch::Tensor& tensor) {
    if (!tensor.defined()) return;
    const std::int64_t bytes = has_data(tensor) ? bytes_of(tensor) : 0;
    if (!entries.empty() && entries.back().kind == kind && entries.back().name == name) {
      // The second buffer of a field of auxiliary state.
      ++entries.back().tensors, entries.back().bytes += bytes;
      return;
    }
    entries.push_back({kind, name, format, 1, bytes});
  }

 private:
  std::map<const void*, std::int64_t> left_;  // bytes of a storage that are not counted yet
  std::set<std::tuple<const void*, std::int64_t, std::int64_t>> seen_;
};

// The state of a parameter.
struct Held {
  const StateBuffers& buffers;
  const std::vector<jit::Slot>& slots;  // declared by its rule
};

void add_state(Measure& measure, const Held& held, Entries& entries) {
  const StateBuffers& state = held.buffers;
  for (std::size_t i = 0; i < state.slots.size(); ++i) {
    const auto& [codes, meta] = state.slots[i];
    if (!codes.defined()) continue;
    // The codec is called fp32 but stores real_dtype, which is float64 for float64 parameters.
    const std::string format =
        codes.scalar_type() == torch::kFloat64 ? dtype_name(codes) : state.format.slots.at(i)->name;
    measure.add(entries, Kind::state, held.slots[i].name, format, codes);
    measure.add(entries, Kind::scales, held.slots[i].name, format, meta);
  }
  measure.add(entries, Kind::residual, "", state.format.weights, state.residual);
  for (const auto& [key, buffers] : state.aux_state)
    for (const torch::Tensor& half : buffers)
      if (half.defined()) measure.add(entries, Kind::aux_state, key, dtype_name(half), half);
  measure.add(entries, Kind::aux_state, "skipped steps", "int64", state.t.step_offset());
}

Entries entries_of(Measure& measure, const torch::Tensor& p, const Held* held) {
  Entries entries;
  measure.add(entries, Kind::parameters, "", dtype_name(p), p);
  if (p.grad().defined()) measure.add(entries, Kind::gradients, "", dtype_name(p.grad()), p.grad());
  if (held != nullptr) add_state(measure, *held, entries);
  return entries;
}

}  // namespace

MemoryReport Optimizer::memory_report() const {
  std::map<const void*, Held> states;  // states whose parameter was not found in a group yet
  for (const auto& [key, held] : state_)
    if (const auto* const state = dynamic_cast<const ParamState*>(held.get()))
      states.emplace(key, Held{state->data().buffers, state->data().declared_slots()});
  MemoryReport report;
  Measure measure;
  std::set<const void*> listed;
  for (std::size_t g = 0; g < param_groups_.size(); ++g)
    for (std::size_t i = 0; i < param_groups_[g].params().size(); ++i) {
      const torch::Tensor& p = param_groups_[g].params()[i];
      if (!listed.insert(p.unsafeGetTensorImpl()).second) continue;
      const auto own = states.extract(p.unsafeGetTensorImpl());
      const Held* const held = own.empty() ? nullptr : &own.mapped();
      report.parameters.push_back({g, i, p.sizes().vec(), p.numel(), impl_->rule_of(g),
                                   held != nullptr, entries_of(measure, p, held)});
    }
  for (const auto& [key, held] : states) add_state(measure, held, report.others);
  const SharedStateTensors& shared_state = impl_->shared_state;
  measure.add(report.others, Kind::aux_state,
              jit::joined(shared_names(impl_->default_options().manifest())), "float64",
              shared_state.buffers());
  measure.add(report.others, Kind::aux_state, "skipped steps", "int64", shared_state.step_offset());
  return report;
}

}  // namespace jitstep
