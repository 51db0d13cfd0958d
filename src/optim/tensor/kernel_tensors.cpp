#include "optim/tensor/kernel_tensors.h"

namespace jitstep {
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

bool is_aligned(const jit::StepTensor& tensor, const void* g) {
  std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(tensor.p) |
                        reinterpret_cast<std::uintptr_t>(tensor.extra) |
                        reinterpret_cast<std::uintptr_t>(g);
  for (const auto& slot : tensor.slots) bits |= reinterpret_cast<std::uintptr_t>(slot.codes);
  return bits % 16 == 0;
}

}  // namespace jitstep
