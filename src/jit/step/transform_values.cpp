#include "jit/step/transform_values.h"

#include <cstdint>

#include "jit/base/args.h"
#include "jit/base/integers.h"

namespace jitstep::jit {
namespace {

constexpr std::int64_t kAlignment = 256;

// Of one transform.
std::int64_t bytes_of(const TensorRecord& tensor, const Plan& plan) {
  const std::int64_t bytes = tensor.n * real_bytes(plan.spec.state.dtype);
  return round_up(bytes, kAlignment);
}

}  // namespace

void TransformValues::reserve(Backend& backend, const std::vector<LaunchBatch>& batches,
                              const std::vector<StepInput>& inputs) {
  release();
  std::vector<std::int64_t> sizes, counts;
  std::int64_t sum = 0;
  for (const LaunchBatch& batch : batches)
    for (const TensorRecord& tensor : batch.tensors()) {
      const bool inactive = inputs[sizes.size()].inactive;
      sizes.push_back(inactive ? 0 : bytes_of(tensor, batch.plan()));
      counts.push_back(batch.transforms());
      sum += counts.back() * sizes.back();
    }
  all_.assign(sizes.size(), {});
  if (sum == 0) return;
  memory_ = backend.allocate(static_cast<std::size_t>(sum));
  auto* next = static_cast<std::byte*>(memory_.get());
  for (std::size_t i = 0; i < sizes.size(); ++i)
    for (std::int64_t k = 0; k < counts[i]; ++k, next += sizes[i])
      if (sizes[i] > 0) all_[i][static_cast<std::size_t>(k)] = next;
}

void TransformValues::release() {
  memory_.reset();
  all_.assign(all_.size(), {});
}

}  // namespace jitstep::jit
