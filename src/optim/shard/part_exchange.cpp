#include "optim/shard/part_exchange.h"

#include <algorithm>
#include <cstring>

#include "jit/base/integers.h"

namespace jitstep {
namespace {

// Copies without torch's dispatch on the CPU, where most ranges are short.
void copy_range(const torch::Tensor& to, std::int64_t at, const torch::Tensor& from,
                std::int64_t begin, std::int64_t count) {
  if (count == 0) return;
  if (to.device().is_cpu() && from.device().is_cpu()) {
    const auto width = static_cast<std::int64_t>(to.element_size());
    std::memcpy(static_cast<char*>(to.data_ptr()) + at * width,
                static_cast<const char*>(from.const_data_ptr()) + begin * width,
                static_cast<std::size_t>(count * width));
    return;
  }
  to.narrow(0, at, count).copy_(from.narrow(0, begin, count));
}

// Packs, gathers and unpacks one bucket. `range_of`: the range of piece i that a rank has.
template <class RangeOf>
void gather_bucket(RankGroup& group, const std::vector<torch::Tensor>& pieces,
                   const RangeOf& range_of) {
  std::int64_t most = 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) count += range_of(rank, i).count();
    most = std::max(most, count);
  }
  if (most == 0) return;
  const torch::Tensor mine = torch::zeros({most}, pieces.front().options());
  std::int64_t at = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const jit::Part own = range_of(group.rank(), i);
    copy_range(mine, at, pieces[i], own.first, own.count());
    at += own.count();
  }
  const torch::Tensor all = group.all_gather(mine.view(torch::kUInt8)).view({-1});
  const torch::Tensor values = all.view(mine.scalar_type());
  for (int rank = 0; rank < group.size(); ++rank) {
    std::int64_t from = rank * most;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const jit::Part part = range_of(rank, i);
      if (rank != group.rank()) copy_range(pieces[i], part.first, values, from, part.count());
      from += part.count();
    }
  }
}

}  // namespace

void gather_parts(RankGroup& group, const jit::Partition& partition,
                  const std::vector<GatheredTensor>& tensors, std::int64_t bucket_bytes) {
  if (group.size() == 1) return;
  const auto tensor_of = [&](std::size_t i) -> const torch::Tensor& { return tensors[i].values; };
  for (std::size_t begin = 0, end = 0; begin < tensors.size(); begin = end) {
    end = bucket_end(begin, tensors.size(), bucket_bytes, tensor_of);
    std::vector<torch::Tensor> bucket;
    for (std::size_t i = begin; i < end; ++i) bucket.push_back(tensors[i].values);
    gather_bucket(group, bucket, [&](int rank, std::size_t i) -> const jit::Part& {
      return partition.part(rank, tensors[begin + i].index);
    });
  }
}

void gather_partial_sums(RankGroup& group, const jit::Partition& partition,
                         const std::function<std::size_t(int)>& index_of,
                         const std::vector<jit::PartialSums>& partials,
                         const torch::Device& device) {
  if (group.size() == 1) return;
  std::vector<torch::Tensor> sums;
  std::vector<std::size_t> indices;
  for (const jit::PartialSums& one : partials) {
    // With a target device, torch does not ask the CUDA driver where the memory is.
    sums.push_back(at::for_blob(one.sums, {one.count * one.terms})
                       .options(torch::dtype(torch::kFloat64).device(device))
                       .target_device(device)
                       .make_tensor());
    indices.push_back(index_of(one.id));
  }
  gather_bucket(group, sums, [&](int rank, std::size_t i) -> jit::Part {
    const jit::Part part = partition.part(rank, indices[i]);
    const std::int64_t run = partials[i].elements, terms = partials[i].terms;
    if (part.count() == 0) return {};
    return {part.first / run * terms, jit::ceil_div(part.last, run) * terms};
  });
}

torch::Tensor gather_bytes(RankGroup& group, const torch::Tensor& mine,
                           const std::vector<std::int64_t>& counts) {
  if (group.size() == 1) return mine;
  std::vector<std::int64_t> to(counts.size()), from(counts.size());
  to[0] = mine.numel();
  if (group.rank() == 0) from = counts;
  const torch::Tensor all = group.all_to_all(mine, to, from);
  return group.rank() == 0 ? all : torch::Tensor();
}

}  // namespace jitstep
