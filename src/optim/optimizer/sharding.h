// The ranks that share the state of an optimizer, and the part of each parameter that every rank steps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "jit/step/partition.h"
#include "optim/optimizer/optimizer_impl.h"
#include "optim/shard/rank_check.h"
#include "optim/shard/rank_group.h"

namespace jitstep {

/// Belongs to one Impl, whose groups stay as they are. Only one thread at a time may use it.
class Optimizer::Impl::Sharding final : public StepRanks {
 public:
  /// Deals the parameters to the ranks. Throws a c10::Error if they are on several devices.
  Sharding(Impl& impl, std::shared_ptr<RankGroup> ranks, const ShardOptions& options);

  RankGroup& ranks() const { return *ranks_; }
  const jit::Partition& partition() const { return partition_; }
  /// All parameters without duplicates, by index in the partition.
  const std::vector<ParameterName>& names() const { return names_; }
  std::size_t index_of(const void* key) const { return index_.at(key); }
  std::size_t index_of(const StepParam& param) const {
    return index_of(static_cast<const ParamRecord&>(param).key);
  }
  /// This rank's part of a parameter.
  const jit::Part& part(const void* key) const {
    return partition_.part(ranks_->rank(), index_of(key));
  }
  /// True if the parameter has the order of elements in memory that it had when the parts were made.
  bool keeps_order(const void* key, const torch::Tensor& p) const;
  /// The whole parameter. Throws a c10::Error if it was removed from its group.
  const torch::Tensor& parameter(const ParameterName& name) const;
  /// All parameters, by index in the partition.
  std::vector<torch::Tensor> parameters() const;

  /// Runs a call that all ranks make. An error before the ranks agree is reported to the others.
  void run(RankCall call, const std::function<void()>& action);
  void agree() override;
  /// Before an exchange in a step, on all ranks. Throws on all of them unless all are in step(). After it, ranks throw
  /// together, until agree_again().
  void agree_on_call();
  /// From here on, an error on this rank alone is reported to the others.
  void agree_again() { agreed_ = false; }
  void exchange(const std::vector<jit::PartialSums>& partials) override;
  void transform(const std::vector<TransformedPart>& parts, int number,
                 const TransformOfGroup& transform) override;
  /// Fills in the other ranks' parts of the active parameters. If it fails, own state is ahead of those parts.
  void gather_parameters();

 private:
  bool is_launch() const;
  void find_ids();
  void check_device(const ParameterName& name) const;
  std::uint64_t digest_of(const std::shared_ptr<const jit::Plan>& plan);
  std::uint64_t digest_of_group(std::size_t group) const;
  void add_digests_of_step(std::vector<ParameterDigest>& all);
  std::vector<ParameterDigest> digests();
  void share_found_inf() const;
  void end_failed_call();

  Impl& impl_;
  std::shared_ptr<RankGroup> ranks_;
  jit::Partition partition_;
  std::vector<ParameterName> names_;                // by index in the partition, as the next one
  std::vector<std::vector<std::int64_t>> strides_;  // without gaps, when the parts were made
  std::unordered_map<const void*, std::size_t> index_;
  std::unordered_map<int, std::size_t> index_of_id_;  // of active parameters
  std::unordered_map<const jit::Plan*, std::pair<std::shared_ptr<const jit::Plan>, std::uint64_t>>
      plans_;                  // and their digests
  std::uint64_t options_;      // a digest of the ShardOptions
  std::int64_t bucket_bytes_;  // of parameters that travel together
  RankCall call_ = RankCall::step;
  bool agreed_ = true;  // in this call
  bool lost_ = false;   // parameters are not those of the state
};

}  // namespace jitstep
