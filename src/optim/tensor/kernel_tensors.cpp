#include "optim/tensor/kernel_tensors.h"

#include <algorithm>
#include <array>
#include <utility>

namespace jitstep {
namespace {

constexpr std::array<std::pair<torch::ScalarType, jit::Dtype>, 4> kDtypes = {
    {{torch::kFloat64, jit::Dtype::float64},
     {torch::kFloat32, jit::Dtype::float32},
     {torch::kBFloat16, jit::Dtype::bfloat16},
     {torch::kFloat16, jit::Dtype::float16}}};

}  // namespace

jit::Shape shape_of(const torch::Tensor& tensor) {
  if (tensor.dim() == 0) return {{1}, {1}};
  return {tensor.sizes().vec(), tensor.strides().vec()};
}

jit::Dtype dtype_of(const torch::Tensor& tensor) {
  for (const auto& [torch_type, dtype] : kDtypes)
    if (tensor.scalar_type() == torch_type) return dtype;
  TORCH_CHECK(false, "jitstep: dtype ", tensor.dtype(),
              " is not supported. Convert parameters and gradients to ", jit::kDtypeList, ".");
}

bool is_supported(torch::ScalarType type) {
  return std::any_of(kDtypes.begin(), kDtypes.end(),
                     [&](const auto& pair) { return pair.first == type; });
}

torch::ScalarType torch_dtype(jit::Dtype dtype) {
  for (const auto& [torch_type, known] : kDtypes)
    if (known == dtype) return torch_type;
  return torch::kFloat32;  // not reached: kDtypes has every jit::Dtype
}

torch::ScalarType real_dtype(jit::Dtype parameter) {
  return jit::real_bytes(parameter) == 8 ? torch::kFloat64 : torch::kFloat32;
}

torch::Tensor values_at(void* memory, const torch::Tensor& p) {
  const auto options = p.options().dtype(real_dtype(dtype_of(p))).requires_grad(false);
  if (p.dim() == 0) return torch::from_blob(memory, {}, options);
  return torch::from_blob(memory, p.sizes(), jit::compact_strides(shape_of(p)), options);
}

bool is_dense_like(const torch::Tensor& p, const torch::Tensor& values) {
  const jit::Shape shape = shape_of(p);
  return jit::is_dense({shape.sizes, shape_of(values).strides}, jit::compact_strides(shape));
}

torch::Tensor storage_range(const torch::Tensor& dense, std::int64_t first, std::int64_t count) {
  return dense.as_strided({count}, {1}, dense.storage_offset() + first);
}

torch::Tensor in_element_order(const torch::Tensor& p, const torch::Tensor& values) {
  const torch::Tensor own = values.detach();
  if (is_dense_like(p, own)) return storage_range(own, 0, own.numel());
  const jit::Shape shape = shape_of(p);
  torch::Tensor ordered =
      torch::empty_strided(shape.sizes, jit::compact_strides(shape), own.options());
  ordered.copy_(own.view(shape.sizes));
  return storage_range(ordered, 0, own.numel());
}

torch::Tensor in_storage_order(const torch::Tensor& elements, const torch::Tensor& p) {
  if (p.dim() == 0) return elements.view(torch::IntArrayRef());
  return elements.as_strided(p.sizes(), jit::compact_strides(shape_of(p)));
}

bool is_aligned(const jit::StepTensor& tensor, const void* g) {
  std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(tensor.p) |
                        reinterpret_cast<std::uintptr_t>(tensor.residual) |
                        reinterpret_cast<std::uintptr_t>(g);
  for (const auto& slot : tensor.slots) bits |= reinterpret_cast<std::uintptr_t>(slot.codes);
  return bits % 16 == 0;
}

}  // namespace jitstep
