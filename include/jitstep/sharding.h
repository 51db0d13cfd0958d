// Training on several ranks. This header includes c10d, which jitstep.h does not.
#pragma once

#include <torch/arg.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "jitstep/jit/export.h"

/// Optimizer::shard() takes any c10d::ProcessGroup, for example over gloo or NCCL:
///
///   jitstep::AdamW optimizer(model->parameters(), jitstep::AdamWOptions(1e-3).state("int8"));
///   optimizer.shard(group);
///
/// docs/guides/distributed.md shows how to make a group, and which bits are equal.

namespace jitstep {

/// What the ranks of Optimizer::shard() share, and how. All ranks must have the same options.
struct JITSTEP_API ShardOptions {
  /// What p.grad() is in step().
  enum class Gradients {
    mean,  // the mean of all ranks' gradients, for example from average_gradients()
    own    // this rank's gradient; the optimizer reduces it (ZeRO stage 2)
  };
  /// How own gradients are added.
  enum class Reduction {
    ordered,  // as in average_gradients(): the bits depend on the gradients alone
    backend  // by the group's reduce-scatter, in its own order; it may round 16-bit sums often
  };

  /// What p.grad() is. With `own`, do not call average_gradients().
  TORCH_ARG(Gradients, gradients) = Gradients::mean;
  /// backward() exchanges own gradients in buckets while it computes others, and frees each of them at once. A rank
  /// then keeps the mean of its parts only, and buckets that travel. Otherwise step() reduces p.grad(), which stays as
  /// it is.
  TORCH_ARG(bool, in_backward) = false;
  /// The order in which own gradients are added.
  TORCH_ARG(Reduction, reduction) = Reduction::ordered;
  /// The number of backward() calls before a step(), with in_backward. A step reads the mean over the micro-batches of
  /// all ranks, so do not divide the loss. It may come earlier, after equally many on all ranks. Until the last one, a
  /// rank keeps up to log2(micro_batches) sums of all gradients in float32.
  TORCH_ARG(std::int64_t, micro_batches) = 1;
  /// Gradients of about so many bytes travel together, and new parameters too.
  TORCH_ARG(std::int64_t, bucket_bytes) = 32 << 20;
};

/// Replaces the gradients by their mean over all ranks of the group. Call it on all ranks between backward() and
/// step(), with the parameters of the same model in the same order.
///
/// The mean is a function of the ranks' gradients alone. It does not depend on the back end, the size of buckets or
/// timing. Gradients are added as a tree over ranks, in float32 (float64 for float64), and rounded once. A rank sends
/// 2 (ranks - 1) / ranks times the bytes of the gradients, as in an all-reduce.
///
/// A parameter that has no gradient on some ranks counts as zeros there, and gets a gradient. One that has none on any
/// rank stays without. Gradients may have any layout in memory, any floating-point dtype and any device.
///
/// `bucket_bytes`: gradients of about so many bytes travel together, and as many bytes are allocated twice.
///
/// Throws a c10::Error if the group is null, a gradient is sparse, ranks differ in sizes or dtypes of parameters, or a
/// rank fails. Gradients are unchanged if ranks differ. Not thread-safe for one group.
JITSTEP_API void average_gradients(const std::vector<torch::Tensor>& parameters,
                                   const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                   std::int64_t bucket_bytes = 32 << 20);

/// An all-reduce for communication hooks of data parallelism, such as that of c10d::Reducer. Its mean has the bits of
/// average_gradients(). Buckets travel while backward() computes others. docs/guides/distributed.md has an example.
/// All ranks must start the same buckets in the same order, from one thread at a time.
class JITSTEP_API OrderedAllReduce {
 public:
  /// Throws a c10::Error for a null group.
  explicit OrderedAllReduce(c10::intrusive_ptr<c10d::ProcessGroup> group);
  ~OrderedAllReduce();
  OrderedAllReduce(const OrderedAllReduce&) = delete;
  OrderedAllReduce& operator=(const OrderedAllReduce&) = delete;

  /// Replaces `values` by their mean over all ranks. `values`: floating-point, contiguous, on a device of the group.
  /// Returns a future of `values`. It completes after the start of the next bucket, or after this one if it
  /// `is_last`. Then all earlier ones complete too.
  c10::intrusive_ptr<c10::ivalue::Future> start(const torch::Tensor& values, bool is_last);

 private:
  struct Bucket;
  void send_mean();

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::unique_ptr<Bucket> open_;  // the last bucket, whose mean was not sent yet
};

}  // namespace jitstep
