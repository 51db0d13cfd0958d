#include "optim/optimizer/reduction.h"

#include <exception>
#include <utility>
#include <vector>

#include "optim/tensor/backends.h"
#include "optim/tensor/checks.h"
#include "optim/tensor/kernel_tensors.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {

Optimizer::Impl::Reduction::Reduction(Sharding& sharding, const ReductionOptions& options,
                                      bool in_backward)
    : sharding_(sharding),
      reduction_(sharding.ranks(), sharding.partition(), sharding.parameters(), options),
      watch_(std::make_shared<BackwardWatch>([this] { on_end_of_backward(); })) {
  if (in_backward)
    hooks_.emplace("an optimizer that reduces gradients in backward()", sharding.parameters(),
                   [this](std::size_t index) { on_gradient(index); });
}

// The gradient is freed in any case: it is in a bucket, or it belongs to a backward that failed.
void Optimizer::Impl::Reduction::on_gradient(std::size_t index) {
  const auto lock = watch_->lock();
  const torch::Tensor& p = sharding_.parameter(sharding_.names()[index]);
  try {
    TORCH_CHECK(
        !reduction_.is_full(),
        "jitstep: backward() computes gradients of one micro-batch too many since the last ",
        "step(): ranks have exchanged the others. Call step(), or set ",
        "ShardOptions::micro_batches().");
    watch_->note_gradient();
    const bool was_failed = std::exchange(failed_, true);
    check_backward();
    add(index);
    failed_ = was_failed;
  } catch (...) {
    p.mutable_grad().reset();
    throw;
  }
  p.mutable_grad().reset();
}

void Optimizer::Impl::Reduction::on_end_of_backward() {
  const OwnOperations own;
  const bool was_failed = std::exchange(failed_, true);
  reduction_.end_micro_batch();
  failed_ = was_failed;
}

void Optimizer::Impl::Reduction::check_backward() const {
  TORCH_CHECK(
      watch_->outermost() <= 1,
      "jitstep: backward() begins before the end of another one, or after one that failed. ",
      "Call step() on all ranks, which throws and drops the gradients, and begin again.");
}

torch::Tensor Optimizer::Impl::Reduction::checked_gradient(std::size_t index) const {
  const ParameterName& name = sharding_.names()[index];
  const torch::Tensor& p = sharding_.parameter(name);
  return with_context(p, name, [&] {
    torch::Tensor g = is_lazy(p.grad()) ? jitstep::materialized(p.grad()) : p.grad();
    check_gradient(p, g, name);
    reduction_.check(index, g);
    return g;
  });
}

// A stream does not see the copies of another one.
void Optimizer::Impl::Reduction::add(std::size_t index) {
  const OwnOperations own;
  const ParameterName& name = sharding_.names()[index];
  const torch::Tensor& p = sharding_.parameter(name);
  const torch::Tensor g = checked_gradient(index);
  const c10::Stream now = current_stream(p.device());
  if (stream_ && *stream_ != now) wait_for_all(p.device());
  stream_ = now;
  with_context(p, name, [&] { reduction_.add(index, in_element_order(p, g)); });
}

// Every other rank has sent its buckets in backward(), or is in step() and will send them.
void Optimizer::Impl::Reduction::await_backward() {
  for (const ParameterName& name : sharding_.names())
    TORCH_CHECK(!sharding_.parameter(name).grad().defined(), "jitstep: step() found a gradient of ",
                describe(sharding_.parameter(name), name), " that backward() did not compute. Use ",
                "ShardOptions::in_backward(false) to set gradients.");
  TORCH_CHECK(
      !failed_ && !watch_->is_running(),
      "jitstep: step() has no gradients, because backward() failed. They are dropped. Call ",
      "backward() again.");
  reduction_.send_rest();
  sharding_.agree_on_call();
}

// Checks all gradients before the other ranks wait for them. In reverse order, as buckets are sent.
void Optimizer::Impl::Reduction::read_all() {
  reduction_.reset();
  std::vector<std::size_t> present;
  for (std::size_t i = sharding_.names().size(); i-- > 0;)
    if (sharding_.parameter(sharding_.names()[i]).grad().defined()) present.push_back(i);
  for (const std::size_t i : present) checked_gradient(i);
  sharding_.agree_on_call();
  for (const std::size_t i : present) add(i);
  reduction_.end_micro_batch();
  reduction_.send_rest();
}

void Optimizer::Impl::Reduction::reduce() {
  if (in_backward() && reduction_.is_finished()) return;
  try {
    in_backward() ? await_backward() : read_all();
  } catch (const RankFailure&) {
    drop();  // another rank failed; after an error of this rank, end_failed_call() does so
    throw;
  }
  try {
    reduction_.finish();
    TORCH_CHECK(!dropped_ || reduction_.has_gradients(), "jitstep: step() has no gradients: all ",
                "ranks have dropped them, because a step() failed. Call backward() again.");
    dropped_ = false;
  } catch (...) {
    drop();
    throw;
  }
  sharding_.agree_again();
}

void Optimizer::Impl::Reduction::join_failed_step() noexcept {
  try {
    const OwnOperations own;
    const auto lock = watch_->lock();
    if (in_backward() && !reduction_.is_finished()) reduction_.send_rest();
  } catch (const std::exception&) {  // the error that is being reported matters more
  }
}

void Optimizer::Impl::Reduction::end_failed_step() {
  if (!reduction_.is_finished()) drop();
}

// Without backward(), a second call of step() would have no gradients, and would do nothing.
void Optimizer::Impl::Reduction::drop() {
  end_step();
  dropped_ = in_backward();
}

void Optimizer::Impl::Reduction::end_step() {
  const auto lock = watch_->lock();
  watch_->reset();
  failed_ = false;
  reduction_.reset();
}

const torch::Tensor* Optimizer::Impl::reduced_gradient(ParamRecord& record) {
  torch::Tensor& gradient = record.part_grad = reduction->gradient(record.key);
  if (!gradient.defined()) return nullptr;
  if (!record.part.defined()) gradient = in_storage_order(gradient, *record.parameter);
  if (!record.gradient.same_metadata(gradient)) record.version = ++versions;
  record.gradient = TensorFingerprint(gradient, TensorFingerprint::Access::read);
  record.g = gradient.const_data_ptr();
  return &gradient;
}

}  // namespace jitstep
