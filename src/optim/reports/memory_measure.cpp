#include "optim/reports/memory_measure.h"

#include <algorithm>

#include "optim/tensor/kernel_tensors.h"
#include "optim/tensor/memory_overlap.h"

namespace jitstep {
namespace {

std::string dtype_name(const torch::Tensor& tensor) {
  const torch::ScalarType type = tensor.scalar_type();
  return is_supported(type) ? jit::to_string(dtype_of(tensor)) : c10::toString(type);
}

}  // namespace

// All tensors of a storage together count at most its bytes, because an expanded tensor repeats elements.
std::int64_t MemoryMeasure::bytes_of(const torch::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  const auto all = static_cast<std::int64_t>(tensor.nbytes());
  if (!seen_.emplace(storage.data(), tensor.storage_offset(), all).second) return 0;
  std::int64_t& left =
      left_.try_emplace(storage.data(), static_cast<std::int64_t>(storage.nbytes())).first->second;
  const std::int64_t bytes = std::min(all, left);
  left -= bytes;
  return bytes;
}

void MemoryMeasure::add(Entries& entries, Kind kind, const std::string& name,
                        const std::string& format, const torch::Tensor& tensor) {
  if (!tensor.defined()) return;
  const std::int64_t bytes = has_data(tensor) ? bytes_of(tensor) : 0;
  if (!entries.empty() && entries.back().kind == kind && entries.back().name == name) {
    // The second buffer of a field of auxiliary state.
    ++entries.back().tensors, entries.back().bytes += bytes;
    return;
  }
  entries.push_back({kind, name, format, 1, bytes});
}

void MemoryMeasure::add_state(Entries& entries, const StateView& state) {
  const StateBuffers& buffers = state.buffers;
  for (std::size_t i = 0; i < buffers.slots.size(); ++i) {
    const auto& [codes, meta] = buffers.slots[i];
    if (!codes.defined()) continue;
    // The codec is called fp32 but stores real_dtype, which is float64 for float64 parameters.
    const std::string format = codes.scalar_type() == torch::kFloat64
                                   ? dtype_name(codes)
                                   : buffers.format.slots.at(i)->name;
    add(entries, Kind::state, state.slots[i].name, format, codes);
    add(entries, Kind::scales, state.slots[i].name, format, meta);
  }
  add(entries, Kind::residual, "", buffers.format.weights, buffers.residual);
  for (const auto& field : buffers.aux_state)
    for (const torch::Tensor& half : field.buffers) {
      if (half.defined()) add(entries, Kind::aux_state, field.key, dtype_name(half), half);
      if (field.is_matrix()) break;
    }
  add(entries, Kind::aux_state, "skipped steps", "int64", buffers.t.step_offset());
}

void MemoryMeasure::add_host_copy(Entries& entries, Kind kind, const torch::Tensor& copy) {
  if (copy.defined()) add(entries, kind, "host copy", dtype_name(copy) + " in host memory", copy);
}

MemoryMeasure::Entries MemoryMeasure::parameter(const torch::Tensor& p, const StateView* state) {
  Entries entries;
  add(entries, Kind::parameters, "", dtype_name(p), p);
  if (p.grad().defined()) add(entries, Kind::gradients, "", dtype_name(p.grad()), p.grad());
  if (state != nullptr) add_state(entries, *state);
  return entries;
}

}  // namespace jitstep
