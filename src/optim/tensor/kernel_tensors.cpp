#include "optim/tensor/kernel_tensors.h"

namespace jitstep {
namespace {

void* address(const torch::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr() : nullptr;
}

}  // namespace

jit::Shape shape_of(const torch::Tensor& tensor) {
  if (tensor.dim() == 0) return {{1}, {1}};
  return {tensor.sizes().vec(), tensor.strides().vec()};
}

jit::Dtype dtype_of(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kFloat64:
      return jit::Dtype::float64;
    case torch::kFloat32:
      return jit::Dtype::float32;
    case torch::kBFloat16:
      return jit::Dtype::bfloat16;
    case torch::kFloat16:
      return jit::Dtype::float16;
    default:
      TORCH_CHECK(false, "jitstep: dtype ", tensor.dtype(),
                  " is not supported; parameters and gradients are float64, float32, bfloat16 or "
                  "float16");
  }
}

jit::StepTensor kernel_tensor(const torch::Tensor& p, const StateBuffers& state,
                              torch::IntArrayRef g_strides) {
  jit::StepTensor tensor;
  tensor.p = p.data_ptr();
  tensor.extra = address(state.extra);
  for (const auto& slot : state.slots)
    tensor.slots.push_back({address(slot.codes), address(slot.meta)});
  for (const auto& pair : state.memory)
    tensor.memory.push_back({pair[0].data_ptr(), pair[1].data_ptr()});
  tensor.shape = shape_of(p);
  tensor.g_strides = p.dim() == 0 ? std::vector<std::int64_t>{1} : g_strides.vec();
  tensor.id = state.id;
  return tensor;
}

bool is_aligned(const jit::StepTensor& tensor, const void* g) {
  std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(tensor.p) |
                        reinterpret_cast<std::uintptr_t>(tensor.extra) |
                        reinterpret_cast<std::uintptr_t>(g);
  for (const auto& slot : tensor.slots) bits |= reinterpret_cast<std::uintptr_t>(slot.codes);
  return bits % 16 == 0;
}

}  // namespace jitstep
