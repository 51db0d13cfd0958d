#include <ATen/core/ivalue.h>

#include <exception>
#include <utility>

#include "jit/base/integers.h"
#include "jitstep/sharding.h"
#include "optim/shard/collectives.h"
#include "optim/shard/ordered_sum.h"

namespace jitstep {

using Future = c10::ivalue::Future;

// Every rank gets an equal share of the elements of all ranks. Shares travel as bytes: back ends support few dtypes.
struct OrderedAllReduce::Bucket {
  torch::Tensor values, own, shares;  // `own` is the values, and zeros up to equal shares
  c10::intrusive_ptr<Future> mean;
  Work work = {};
};

OrderedAllReduce::OrderedAllReduce(c10::intrusive_ptr<c10d::ProcessGroup> group)
    : group_(std::move(group)) {
  TORCH_CHECK(group_, "jitstep: OrderedAllReduce needs a process group. Pass one, such as a ",
              "c10d::ProcessGroup over gloo or NCCL.");
}

OrderedAllReduce::~OrderedAllReduce() = default;

// All ranks must start collective calls in the same order. So the next call of start() sends the mean of a bucket. For
// the last bucket, its own call does.
c10::intrusive_ptr<Future> OrderedAllReduce::start(const torch::Tensor& values, bool is_last) {
  const torch::NoGradGuard no_grad;
  TORCH_CHECK(values.defined() && values.is_floating_point() && values.is_contiguous(),
              "jitstep: OrderedAllReduce needs contiguous tensors of a floating-point dtype. Pass ",
              "the buffer of a bucket.");
  const std::int64_t ranks = group_->getSize(), share = jit::ceil_div(values.numel(), ranks);
  std::vector<torch::Device> devices;
  if (!values.device().is_cpu()) devices.push_back(values.device());
  Bucket bucket{values,
                torch::zeros({ranks * share}, values.options()),
                {},
                c10::make_intrusive<Future>(c10::TensorType::get(), devices)};
  bucket.own.narrow(0, 0, values.numel()).copy_(values.view({-1}));
  bucket.own = bucket.own.view(torch::kUInt8);
  bucket.shares = torch::empty_like(bucket.own);
  if (ranks > 1 && share > 0)
    bucket.work = all_to_all_by(*group_, bucket.shares, bucket.own, {}, {});
  if (open_) send_mean();
  const auto mean = bucket.mean;
  open_ = std::make_unique<Bucket>(std::move(bucket));
  if (is_last) send_mean();
  return mean;
}

void OrderedAllReduce::send_mean() {
  const Bucket bucket = std::move(*std::exchange(open_, nullptr));
  if (!bucket.work) return bucket.mean->markCompleted(bucket.values);
  bucket.work->wait();
  const std::int64_t ranks = group_->getSize();
  const auto dtype = bucket.values.scalar_type();
  torch::Tensor mine =
      ordered_mean(bucket.shares.view(dtype).view({ranks, -1}), static_cast<double>(ranks), dtype)
          .view(torch::kUInt8);
  torch::Tensor all = bucket.own;
  const Work work = all_gather_by(*group_, all, mine);
  work->getFuture()->addCallback([bucket, mine, all, work](Future& gathered) {
    if (gathered.hasError()) return bucket.mean->setError(gathered.exception_ptr());
    const torch::NoGradGuard no_grad;
    const torch::Tensor elements = all.view(bucket.values.scalar_type());
    bucket.values.view({-1}).copy_(elements.narrow(0, 0, bucket.values.numel()));
    bucket.mean->markCompleted(bucket.values);
  });
}

}  // namespace jitstep
