#include "optim/shard/gradient_reduction.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <numeric>
#include <string>
#include <utility>

#include "optim/shard/part_exchange.h"

namespace jitstep {
namespace {

// Buckets that travel at the same time. Limits the memory for them.
constexpr std::size_t kInFlight = 2;

}  // namespace

GradientReduction::GradientReduction(RankGroup& ranks, const jit::Partition& partition,
                                     std::vector<torch::Tensor> parameters,
                                     const ReductionOptions& options)
    : ranks_(ranks),
      partition_(partition),
      parameters_(std::move(parameters)),
      options_(options),
      places_(parameters_.size()) {
  make_buckets();
}

void GradientReduction::make_buckets() {
  const std::size_t count = parameters_.size();
  const auto reverse = [&](std::size_t i) -> const torch::Tensor& {
    return parameters_[count - 1 - i];
  };
  for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
    end = bucket_end(begin, count, options_.bucket_bytes, reverse);
    const torch::Tensor& first = reverse(begin);
    Bucket& bucket =
        buckets_.emplace_back(Bucket{{}, torch::dtype(first.scalar_type()).device(first.device())});
    for (std::size_t i = begin; i < end; ++i) bucket.parameters.push_back(count - 1 - i);
    lay_out(buckets_.size() - 1);
  }
}

// The parts of each rank are consecutive. A reduce-scatter needs equal numbers for all ranks.
void GradientReduction::lay_out(std::size_t number) {
  Bucket& bucket = buckets_[number];
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    std::int64_t count = 0;
    for (const std::size_t i : bucket.parameters) {
      Place& place = places_[i];
      place.bucket = number;
      place.elements = parameters_[i].numel();
      if (rank == ranks_.rank()) place.own_at = count;
      place.at.push_back(count);
      count += partition_.part(rank, i).count();
    }
    bucket.to.push_back(count);
  }
  bucket.own = bucket.to[static_cast<std::size_t>(ranks_.rank())];
  if (!options_.ordered)
    std::fill(bucket.to.begin(), bucket.to.end(),
              *std::max_element(bucket.to.begin(), bucket.to.end()));
  std::int64_t first = 0;
  for (std::size_t rank = 0; rank < bucket.to.size(); ++rank) {
    for (const std::size_t i : bucket.parameters) places_[i].at[rank] += first;
    first += bucket.to[rank];
  }
}

// Sums of micro-batches are not rounded before all ranks' are added.
torch::ScalarType GradientReduction::travels_as(const Bucket& bucket) const {
  const auto dtype = bucket.options.dtype().toScalarType();
  return options_.micro_batches == 1 ? dtype : OrderedSum::dtype(dtype);
}

// backward() computes the gradients of trained parameters. Others may have one from before they were frozen.
void GradientReduction::begin_micro_batch() {
  if (std::exchange(open_, true)) return;
  for (Bucket& bucket : buckets_) bucket.missing = 0;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    place.arrived = false;
    place.awaited = parameters_[i].requires_grad() || parameters_[i].grad().defined();
    if (place.awaited) ++buckets_[place.bucket].missing;
  }
}

void GradientReduction::check(std::size_t index, const torch::Tensor& gradient) const {
  const std::int64_t elements = places_[index].elements;
  const auto dtype = buckets_[places_[index].bucket].options.dtype();
  TORCH_CHECK(gradient.numel() == elements && gradient.dtype() == dtype,
              "jitstep: ranks cannot reduce a gradient of ", gradient.numel(), " elements of ",
              gradient.scalar_type(), ": in shard() the parameter had ", elements, " of ", dtype,
              ". Use gradients of the parameter's dtype, and the same parameters.");
}

void GradientReduction::add(std::size_t index, const torch::Tensor& values) {
  check(index, values);
  Place& place = places_[index];
  Bucket& bucket = buckets_[place.bucket];
  begin_micro_batch();
  TORCH_CHECK(!place.arrived && place.bucket >= sent_, "jitstep: ranks cannot reduce a second ",
              "gradient of a parameter in one backward(): the first one may have been sent. Use ",
              "checkpointing that is not re-entrant, or in_backward(false).");
  place.arrived = place.any = true;
  copy_in(bucket, index, values);
  if (place.awaited && --bucket.missing == 0) send_complete();
}

// The gradients of this micro-batch, with zeros for those that have not come.
torch::Tensor& GradientReduction::gradients_of(Bucket& bucket) const {
  if (!bucket.gradients.defined())
    bucket.gradients =
        torch::zeros({std::accumulate(bucket.to.begin(), bucket.to.end(), std::int64_t{0})},
                     bucket.options.dtype(travels_as(bucket)));
  return bucket.gradients;
}

void GradientReduction::copy_in(Bucket& bucket, std::size_t index, const torch::Tensor& values) {
  const torch::Tensor& all = gradients_of(bucket);
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const jit::Part& part = partition_.part(rank, index);
    if (part.count() == 0) continue;
    all.narrow(0, places_[index].at[static_cast<std::size_t>(rank)], part.count())
        .copy_(values.narrow(0, part.first, part.count()));
  }
}

// Sends the buckets that are complete, in the order that all ranks have.
void GradientReduction::send_complete() {
  if (ended_ + 1 < options_.micro_batches) return;
  while (sent_ < buckets_.size() && buckets_[sent_].missing == 0) send(buckets_[sent_]);
}

void GradientReduction::add_micro_batch(Bucket& bucket) {
  bucket.sum.add(gradients_of(bucket));
  bucket.gradients.reset();
}

void GradientReduction::send(Bucket& bucket) {
  if (sent_ - collected_ == kInFlight) collect(buckets_[collected_]);
  torch::Tensor mine;
  if (options_.micro_batches == 1) {
    mine = std::exchange(gradients_of(bucket), {});
  } else {
    if (open_ || ended_ == 0) add_micro_batch(bucket);
    mine = bucket.sum.take();
  }
  ++sent_;
  if (mine.numel() == 0 || ranks_.size() == 1) {
    bucket.result = [mine] { return mine; };
  } else if (!options_.ordered) {
    bucket.result = ranks_.start_reduce_scatter(mine);
  } else {
    // As bytes: back ends support few dtypes.
    const auto width = static_cast<std::int64_t>(mine.element_size());
    std::vector<std::int64_t> to = bucket.to;
    for (std::int64_t& count : to) count *= width;
    const std::vector<std::int64_t> from(to.size(), bucket.own * width);
    bucket.result = ranks_.start_all_to_all(mine.view(torch::kUInt8), to, from);
  }
}

// The back end has added the ranks' gradients, or their sum is made here. A copy, to free the memory of all ranks'
// parts.
void GradientReduction::collect(Bucket& bucket) {
  ++collected_;
  const torch::Tensor received = std::exchange(bucket.result, {})().view(travels_as(bucket));
  const bool all_ranks = options_.ordered && ranks_.size() > 1;
  const torch::Tensor rows = all_ranks ? received.view({ranks_.size(), bucket.own})
                                       : received.narrow(0, 0, bucket.own).unsqueeze(0);
  const std::int64_t micro_batches = std::max<std::int64_t>(1, ended_ + (open_ ? 1 : 0));
  bucket.reduced = ordered_mean(rows, static_cast<double>(ranks_.size() * micro_batches),
                                bucket.options.dtype().toScalarType());
}

void GradientReduction::end_micro_batch() {
  if (!open_) return;
  const bool is_last = ended_ + 1 == options_.micro_batches;
  if (is_last)
    while (sent_ < buckets_.size()) send(buckets_[sent_]);
  else
    for (Bucket& bucket : buckets_) add_micro_batch(bucket);
  open_ = false;
  ++ended_;
  if (is_last) sealed_ = true;
}

void GradientReduction::send_rest() {
  if (std::exchange(sealed_, true)) return;
  while (sent_ < buckets_.size()) send(buckets_[sent_]);
}

void GradientReduction::finish() {
  exchange_flags();
  while (collected_ < sent_) collect(buckets_[collected_]);
  finished_ = true;
}

// Of each rank: the number of its micro-batches, and which parameters have a gradient.
void GradientReduction::exchange_flags() {
  constexpr std::int64_t kCount = sizeof ended_;
  const auto count = static_cast<std::int64_t>(places_.size());
  const torch::Tensor mine = torch::zeros({kCount + count}, torch::kUInt8);
  auto* const flags = mine.mutable_data_ptr<std::uint8_t>();
  std::memcpy(flags, &ended_, sizeof ended_);
  for (std::size_t i = 0; i < places_.size(); ++i) flags[sizeof ended_ + i] = places_[i].any;
  const torch::Tensor all = ranks_.all_gather(mine);
  std::int64_t of_first = 0;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const auto* const row = all.const_data_ptr<std::uint8_t>() + rank * (kCount + count);
    std::int64_t ended = 0;
    std::memcpy(&ended, row, sizeof ended);
    if (rank == 0) of_first = ended;
    TORCH_CHECK(ended == of_first || options_.micro_batches == 1,
                "jitstep: ranks cannot step together: rank ", rank, " has gradients of ", ended,
                " micro-batches, and rank 0 of ", of_first,
                ". Nothing has changed. Call backward() equally often on all ranks.");
    for (std::size_t i = 0; i < places_.size(); ++i) places_[i].any |= row[sizeof ended_ + i] != 0;
  }
}

bool GradientReduction::has_gradients() const {
  return std::any_of(places_.begin(), places_.end(), [](const Place& place) { return place.any; });
}

torch::Tensor GradientReduction::gradient(std::size_t index) const {
  const Place& place = places_[index];
  if (!finished_ || !place.any) return {};
  return buckets_[place.bucket].reduced.narrow(0, place.own_at,
                                               partition_.part(ranks_.rank(), index).count());
}

void GradientReduction::find_infinities(const torch::Tensor& found) const {
  torch::Tensor result = found;
  for (const Bucket& bucket : buckets_)
    if (bucket.own > 0)
      at::_amp_foreach_non_finite_check_and_unscale_({bucket.reduced}, result,
                                                     torch::ones_like(found));
}

// Back ends may still use the memory of buckets that travel.
void GradientReduction::reset() {
  for (Bucket& bucket : buckets_) {
    if (const auto result = std::exchange(bucket.result, {})) {
      try {
        result();
      } catch (const std::exception&) {  // the next exchange throws it
      }
    }
    bucket.gradients.reset();
    bucket.reduced.reset();
    bucket.sum = {};
  }
  for (Place& place : places_) place.any = false;
  ended_ = 0;
  open_ = sealed_ = finished_ = false;
  sent_ = collected_ = 0;
}

}  // namespace jitstep
