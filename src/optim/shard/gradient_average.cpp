#include "optim/shard/gradient_average.h"

#include <algorithm>
#include <exception>
#include <span>
#include <string>

#include "jit/base/integers.h"
#include "jitstep/jit/layout.h"
#include "optim/shard/ordered_sum.h"
#include "optim/shard/part_exchange.h"
#include "optim/shard/rank_check.h"
#include "optim/tensor/kernel_tensors.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
namespace {

std::string describe(std::size_t i) { return "parameter " + std::to_string(i); }

void check_gradient(const torch::Tensor& parameter, std::size_t i) {
  TORCH_CHECK(parameter.defined(), "jitstep: average_gradients() got an undefined tensor as ",
              describe(i), ". Pass the parameters of the model.");
  const torch::Tensor& gradient = parameter.grad();
  if (!gradient.defined()) return;
  TORCH_CHECK(gradient.layout() == torch::kStrided,
              "jitstep: average_gradients() cannot average the sparse gradient of ", describe(i),
              ". Make it dense: p.mutable_grad() = p.grad().to_dense().");
  TORCH_CHECK(gradient.sizes() == parameter.sizes(), "jitstep: average_gradients() got ",
              describe(i), " of shape ", parameter.sizes(), " with a gradient of shape ",
              gradient.sizes(), ". Call zero_grad() after you change parameters.");
  TORCH_CHECK(gradient.is_floating_point(), "jitstep: average_gradients() cannot average ",
              gradient.scalar_type(), " gradients, such as that of ", describe(i),
              ". Use a floating-point dtype.");
}

void check_ranks(RankGroup& group, const std::vector<torch::Tensor>& parameters) {
  std::vector<ParameterDigest> digests(parameters.size());
  try {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      check_gradient(parameters[i], i);
      digests[i].shape =
          RankHash().add(parameters[i].sizes()).add(parameters[i].scalar_type()).value();
    }
  } catch (const std::exception&) {
    report_failure(group);
    throw;
  }
  check_same(group, RankCall::average_gradients, digests, describe);
}

// Of one parameter on one rank: 0, or 1 + the dtype of its gradient.
using GradientKind = std::uint8_t;

// The common kind of the ranks' gradients. All ranks see the same kinds, so all of them throw here or none.
GradientKind common_kind(const torch::Tensor& kinds, std::int64_t i) {
  const auto kind_of = [&](std::int64_t rank) {
    return kinds.const_data_ptr<GradientKind>()[rank * kinds.size(1) + i];
  };
  GradientKind common = 0;
  for (std::int64_t rank = 0; rank < kinds.size(0); ++rank) {
    const GradientKind kind = kind_of(rank);
    TORCH_CHECK(kind == 0 || common == 0 || kind == common,
                "jitstep: average_gradients() cannot go on: the gradient of ",
                describe(static_cast<std::size_t>(i)), " on rank ", rank,
                " has another dtype than on a lower rank. Use the same dtype on all ranks.");
    common = std::max(common, kind);
  }
  return common;
}

// The gradients of parameters that have one on some rank. Ranks without one get zeros.
std::vector<torch::Tensor> common_gradients(RankGroup& group,
                                            const std::vector<torch::Tensor>& parameters) {
  const auto count = static_cast<std::int64_t>(parameters.size());
  const torch::Tensor mine = torch::zeros({count}, torch::kUInt8);
  for (std::int64_t i = 0; i < count; ++i)
    if (const torch::Tensor& gradient = parameters[static_cast<std::size_t>(i)].grad();
        gradient.defined())
      mine.mutable_data_ptr<GradientKind>()[i] =
          static_cast<GradientKind>(1 + static_cast<int>(gradient.scalar_type()));
  const torch::Tensor kinds = group.all_gather(mine);
  std::vector<GradientKind> common;
  for (std::int64_t i = 0; i < count; ++i) common.push_back(common_kind(kinds, i));
  std::vector<torch::Tensor> gradients;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (common[i] == 0) continue;
    torch::Tensor& gradient = parameters[i].mutable_grad();
    if (!gradient.defined())
      gradient = torch::zeros_like(parameters[i], static_cast<torch::ScalarType>(common[i] - 1));
    if (!jit::is_non_overlapping(shape_of(gradient)))  // as after expand(): it cannot be written
      gradient = gradient.clone(torch::MemoryFormat::Contiguous);
    gradients.push_back(gradient);
  }
  return gradients;
}

using Bucket = std::span<const torch::Tensor>;

// The elements of all gradients, and zeros up to `elements`.
torch::Tensor packed(Bucket gradients, std::int64_t elements) {
  torch::Tensor all = torch::zeros({elements}, gradients.front().options());
  std::int64_t at = 0;
  for (const torch::Tensor& gradient : gradients) {
    all.narrow(0, at, gradient.numel()).view(gradient.sizes()).copy_(gradient);
    at += gradient.numel();
  }
  return all;
}

void unpack(const torch::Tensor& all, Bucket gradients) {
  std::int64_t at = 0;
  for (const torch::Tensor& gradient : gradients) {
    overwrite(gradient, all.narrow(0, at, gradient.numel()).view(gradient.sizes()));
    at += gradient.numel();
  }
}

// Every rank averages an equal share of the elements, then sends it to all. Shares travel as bytes: back ends support
// few dtypes.
void average_bucket(RankGroup& group, Bucket gradients) {
  std::int64_t elements = 0;
  for (const torch::Tensor& gradient : gradients) elements += gradient.numel();
  if (elements == 0) return;
  const std::int64_t share = jit::ceil_div(elements, group.size());
  const torch::Tensor mine = packed(gradients, share * group.size());
  const auto bytes = share * static_cast<std::int64_t>(mine.element_size());
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(group.size()), bytes);
  const torch::Tensor shares = group.all_to_all(mine.view(torch::kUInt8), counts, counts)
                                   .view(mine.scalar_type())
                                   .view({group.size(), share});
  const torch::Tensor mean = ordered_mean(shares, group.size(), mine.scalar_type());
  unpack(group.all_gather(mean.view(torch::kUInt8)).view({-1}).view(mine.scalar_type()), gradients);
}

}  // namespace

void average_gradients_of_ranks(RankGroup& group, const std::vector<torch::Tensor>& parameters,
                                std::int64_t bucket_bytes) {
  const torch::NoGradGuard no_grad;
  check_ranks(group, parameters);
  if (group.size() == 1 || parameters.empty()) return;
  const std::vector<torch::Tensor> gradients = common_gradients(group, parameters);
  const auto gradient_of = [&](std::size_t i) -> const torch::Tensor& { return gradients[i]; };
  for (std::size_t begin = 0, end = 0; begin < gradients.size(); begin = end) {
    end = bucket_end(begin, gradients.size(), bucket_bytes, gradient_of);
    average_bucket(group, Bucket(gradients).subspan(begin, end - begin));
  }
}

}  // namespace jitstep
