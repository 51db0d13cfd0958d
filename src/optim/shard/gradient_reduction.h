// Gradients that are reduced to the ranks that step them, in buckets, while backward() computes others (ZeRO stage 2).
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "jit/step/partition.h"
#include "optim/shard/ordered_sum.h"
#include "optim/shard/rank_group.h"

namespace jitstep {

/// See ShardOptions. All ranks must have the same.
struct ReductionOptions {
  bool ordered = true;  // false: the back end adds
  std::int64_t micro_batches = 1;
  std::int64_t bucket_bytes = std::int64_t{32} << 20;
};

/// The gradients of one step: of at most `micro_batches` backward() calls. Every rank gets the mean over the
/// micro-batches of all ranks, for its part of each parameter. The sum is a tree over ranks, whose leaves are trees
/// over the micro-batches of a rank. With a power of two micro-batches, it is one tree over all. Only one thread at a
/// time may use it.
class GradientReduction {
 public:
  /// `parameters`: those of the partition. `ranks` and `partition` must outlive this.
  GradientReduction(RankGroup& ranks, const jit::Partition& partition,
                    std::vector<torch::Tensor> parameters, const ReductionOptions& options);

  /// Throws a c10::Error unless add() can take this gradient: its number of elements and its dtype must be those of the
  /// parameter at construction.
  void check(std::size_t index, const torch::Tensor& gradient) const;
  /// True if the next gradient would belong to one micro-batch too many.
  bool is_full() const { return !open_ && (sealed_ || ended_ == options_.micro_batches); }
  /// Adds a gradient of this micro-batch: [numel], in the parameter's storage order and dtype. Does not keep it. Begins
  /// a micro-batch if none is open. In the last one, starts the exchange of buckets that are complete, and may wait for
  /// earlier ones. Throws a c10::Error if the parameter has a gradient in this micro-batch, and as check().
  void add(std::size_t index, const torch::Tensor& values);
  /// Ends the micro-batch. Gradients that did not come are zeros. After the last one, calls send_rest().
  void end_micro_batch();
  /// Starts the exchange of all buckets that were not sent. Does nothing in a second call.
  void send_rest();
  /// After send_rest(): waits for the exchange. Throws a c10::Error on all ranks if their micro-batches differ in
  /// number.
  void finish();
  bool is_finished() const { return finished_; }
  /// True if a gradient was added in this step, after finish() on any rank.
  bool has_gradients() const;
  /// After finish(): the mean for this rank's part, [n], in the parameter's dtype. Undefined if no rank has a gradient.
  torch::Tensor gradient(std::size_t index) const;
  /// After finish(): sets `found`, a float32, to 1 if an element of this rank's parts is not finite.
  void find_infinities(const torch::Tensor& found) const;
  /// Drops all gradients. The next one begins a step. If some ranks have sent buckets, all must have sent all.
  void reset();

 private:
  // Parameters whose gradients travel together.
  struct Bucket {
    std::vector<std::size_t> parameters;
    torch::TensorOptions options;       // dtype and device of these parameters
    std::vector<std::int64_t> to = {};  // elements for each rank
    std::int64_t own = 0;               // elements of this rank's parts
    torch::Tensor gradients = {};       // of this micro-batch, in the order in which they travel
    OrderedSum sum = {};                // of the micro-batches that were added
    std::size_t missing = 0;            // gradients that may still come in this micro-batch
    RankGroup::Result result = {};
    torch::Tensor reduced = {};  // the mean of this rank's parts
  };
  // Where a parameter's gradient is.
  struct Place {
    std::size_t bucket = 0;
    std::int64_t elements = 0;     // of the parameter
    std::vector<std::int64_t> at;  // by rank: the first element of its part in the bucket
    std::int64_t own_at = 0;       // in `reduced`
    bool awaited = false;          // at the begin of this micro-batch
    bool arrived = false;          // in this micro-batch
    bool any = false;              // in a micro-batch of this step; after finish(), of any rank
  };

  void make_buckets();
  void lay_out(std::size_t bucket);
  torch::ScalarType travels_as(const Bucket& bucket) const;
  torch::Tensor& gradients_of(Bucket& bucket) const;
  void begin_micro_batch();
  void copy_in(Bucket& bucket, std::size_t index, const torch::Tensor& values);
  void add_micro_batch(Bucket& bucket);
  void send_complete();
  void send(Bucket& bucket);
  void collect(Bucket& bucket);
  void exchange_flags();

  RankGroup& ranks_;
  const jit::Partition& partition_;
  std::vector<torch::Tensor> parameters_;
  ReductionOptions options_;
  std::vector<Bucket> buckets_;  // in reverse order of parameters, as gradients come
  std::vector<Place> places_;    // by parameter
  std::int64_t ended_ = 0;       // micro-batches
  bool open_ = false;            // a micro-batch has begun
  bool sealed_ = false;          // all buckets are sent
  bool finished_ = false;
  std::size_t sent_ = 0, collected_ = 0;  // buckets
};

}  // namespace jitstep
