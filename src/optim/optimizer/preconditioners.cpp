// The host transforms of Shampoo and SOAP: one matrix of statistics per dimension, and its root or its eigenbasis.
#include <torch/types.h>

#include <algorithm>
#include <limits>
#include <string>

#include "optim/optimizer/host_transforms.h"

namespace jitstep {
namespace {

std::string numbered(const char* name, std::int64_t dim) { return name + std::to_string(dim); }

// [size of dimension `dim`, all others].
torch::Tensor unfolded(const torch::Tensor& values, std::int64_t dim) {
  return values.movedim(dim, 0).reshape({values.size(dim), -1});
}

// Multiplies dimension `dim` by a matrix: the new index is the matrix's column.
torch::Tensor multiplied(const torch::Tensor& values, const torch::Tensor& matrix,
                         std::int64_t dim) {
  return torch::tensordot(values, matrix, {dim}, {0}).movedim(-1, dim);
}

// A scalar counts as a vector.
torch::Tensor with_dimensions(const torch::Tensor& values) {
  return values.dim() == 0 ? values.view({1}) : values;
}

// matrix^(-1 / order), for a symmetric matrix without negative eigenvalues.
torch::Tensor inverse_root(const torch::Tensor& matrix, std::int64_t order) {
  const auto [u, s, vh] = torch::linalg_svd(matrix, /*full_matrices=*/false);
  return (u * s.pow(-1.0 / static_cast<double>(order)).unsqueeze(-2)).mm(vh);
}

// The eigenvectors of a symmetric matrix, that of the largest eigenvalue first.
torch::Tensor eigenbasis(const torch::Tensor& matrix) {
  return std::get<1>(torch::linalg_eigh(matrix)).flip(1);
}

// One power iteration. The QR decomposition takes the columns by descending eigenvalue, but they keep their places.
torch::Tensor refreshed(const torch::Tensor& basis, const torch::Tensor& statistics) {
  const torch::Tensor product = statistics.mm(basis);
  const torch::Tensor order = (basis * product).sum(0).argsort(/*dim=*/0, /*descending=*/true);
  const torch::Tensor q = std::get<0>(torch::linalg_qr(product.index_select(1, order)));
  return torch::empty_like(q).index_copy_(1, order, q);
}

// A rule of the user may declare the option without a range.
std::int64_t frequency(const TransformCall& call) {
  const double every = call.options.get("precondition_frequency").number();
  TORCH_CHECK(every >= 1 && every <= std::numeric_limits<int>::max(),
              "jitstep: precondition_frequency of the rule ", call.options.rule().name, " is ",
              every, ". Declare it with the note `integer; >= 1`.");
  return static_cast<std::int64_t>(every);
}

// Into the eigenbases, or back.
torch::Tensor projected(const TransformCall& call, bool back) {
  torch::Tensor result = with_dimensions(call.values);
  for (std::int64_t dim = 0; dim < result.dim(); ++dim)
    if (const torch::Tensor basis = call.matrix(numbered("q", dim)); basis.defined())
      result = multiplied(result, back ? basis.t() : basis, dim);
  return result;
}

double decay_of_statistics(const TransformCall& call) {
  const jit::Value own = call.options.get("shampoo_beta");
  return own.is_null() ? call.options.get("betas").numbers()[1] : own.number();
}

// A gradient that overflows must not make all later decompositions impossible.
torch::Tensor if_finite(const torch::Tensor& next, const torch::Tensor& statistics) {
  return torch::where(next.isfinite().all(), next, statistics);
}

// For a decomposition of them. That of an eigenbasis would only be NaN, too.
void check_finite(const torch::Tensor& statistics, const TransformCall& call) {
  TORCH_CHECK(statistics.isfinite().all().item<bool>(), "jitstep: the statistics of the rule ",
              call.options.rule().name,
              " are not finite. Check the gradient for infinities, NaN and values that overflow "
              "when squared.");
}

}  // namespace

void shampoo(const TransformCall& call) {
  const torch::Tensor gradient = with_dimensions(call.values);
  const std::int64_t every = frequency(call), step = call.step();
  torch::Tensor result = gradient;
  for (std::int64_t dim = 0; dim < gradient.dim(); ++dim) {
    const torch::Tensor statistics = call.matrix(numbered("l", dim));
    if (!statistics.defined()) continue;
    const torch::Tensor rows = unfolded(gradient, dim);
    torch::Tensor next = statistics + rows.mm(rows.t());
    torch::Tensor& root = call.matrices[numbered("root", dim)];
    if (step == 1 || step % every == 0)
      root = inverse_root(next, 2 * gradient.dim());  // throws unless all are finite
    else
      next = if_finite(next, statistics);
    call.matrices[numbered("l", dim)] = next;
    result = multiplied(result, root, dim);
  }
  call.values.copy_(result.reshape(call.values.sizes()));
}

void soap_gradient(const TransformCall& call) {
  const torch::Tensor gradient = with_dimensions(call.values).clone();
  const double fresh = 1 - decay_of_statistics(call);
  const std::int64_t taken = call.step() - 1;
  const bool first = taken == 0, refreshes = taken % frequency(call) == 0;
  if (!first) call.values.copy_(projected(call, false).reshape(call.values.sizes()));
  for (std::int64_t dim = 0; dim < gradient.dim(); ++dim) {
    const torch::Tensor statistics = call.matrix(numbered("gg", dim));
    if (!statistics.defined()) continue;
    const torch::Tensor rows = unfolded(gradient, dim);
    torch::Tensor next = statistics.lerp(rows.mm(rows.t()), fresh);
    if (refreshes)  // soap_update() needs their eigenvectors
      check_finite(next, call);
    else
      next = if_finite(next, statistics);
    call.matrices[numbered("gg", dim)] = next;
    if (first) call.matrices[numbered("q", dim)] = eigenbasis(next);
  }
}

void soap_momentum(const TransformCall& call) {
  call.values.copy_(projected(call, false).reshape(call.values.sizes()));
}

void soap_update(const TransformCall& call) {
  call.values.copy_(projected(call, true).reshape(call.values.sizes()));
  const std::int64_t taken = call.step() - 1;
  if (taken == 0 || taken % frequency(call) != 0) return;
  for (std::int64_t dim = 0; dim < std::max<std::int64_t>(call.values.dim(), 1); ++dim)
    if (const torch::Tensor statistics = call.matrix(numbered("gg", dim)); statistics.defined()) {
      torch::Tensor& basis = call.matrices[numbered("q", dim)];
      basis = refreshed(basis, statistics);
    }
}

}  // namespace jitstep
