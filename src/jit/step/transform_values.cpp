#include "jit/step/transform_values.h"

#include <cstdint>

#include "jit/base/args.h"

namespace jitstep::jit {
namespace {

constexpr std::int64_t kAlignment = 256;

std::int64_t bytes_of(const TensorRecord& tensor, const Plan& plan) {
  if (plan.rule().host_transform.empty()) return 0;
  const std::int64_t bytes = tensor.n * real_bytes(plan.spec.state.dtype);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

void TransformValues::reserve(Backend& backend, const std::vector<LaunchBatch>& batches,
                              const std::vector<StepInput>& inputs) {
  release();
  std::vector<std::int64_t> sizes;
  std::int64_t sum = 0;
  for (const LaunchBatch& batch : batches)
    for (const TensorRecord& tensor : batch.tensors()) {
      const bool inactive = inputs[sizes.size()].inactive;
      sizes.push_back(inactive ? 0 : bytes_of(tensor, batch.plan()));
      sum += sizes.back();
    }
  all_.assign(sizes.size(), nullptr);
  if (sum == 0) return;
  memory_ = backend.allocate(static_cast<std::size_t>(sum));
  auto* next = static_cast<std::byte*>(memory_.get());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 0) all_[i] = next;
    next += sizes[i];
  }
}

void TransformValues::release() {
  memory_.reset();
  all_.assign(all_.size(), nullptr);
}

}  // namespace jitstep::jit
