// The iteration of torch.optim.Muon, with the same operations, batched over matrices of equal sizes.
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "optim/optimizer/host_transforms.h"

namespace jitstep {
namespace {

// Elements of one batch. This bounds the iteration's temporary memory to a few times this size.
constexpr std::int64_t kBatchElements = std::int64_t{1} << 22;

constexpr int kMaxSteps = 99;  // as torch.optim.Muon

bool is_tall(const torch::Tensor& matrix) { return matrix.size(0) > matrix.size(1); }

// 1 for a rule without the option: it scales its updates itself.
double rate_factor(const torch::Tensor& values, const jit::OptionValues& options) {
  if (options.rule().find("adjust_lr_fn") == nullptr) return 1;
  const std::string adjust = options.get("adjust_lr_fn").choice();
  const auto rows = static_cast<double>(values.size(0)),
             columns = static_cast<double>(values.size(1));
  if (adjust == "match_rms_adamw") return 0.2 * std::sqrt(std::max(rows, columns));
  return std::sqrt(std::max(1.0, rows / columns));
}

// A copy with at most as many rows as columns, and no singular value above 1. The norm is computed per matrix: for a
// batch, torch's order of summation would depend on the number of matrices.
torch::Tensor scaled(const torch::Tensor& values, torch::Dtype dtype, double eps) {
  const torch::Tensor x = values.to(dtype, /*non_blocking=*/false, /*copy=*/true);
  x.div_(x.norm().clamp_min(eps));
  return is_tall(values) ? x.t() : x;
}

// Iterates on [batch, rows, columns]. Each of the three results of an iteration is rounded once.
torch::Tensor orthogonalized(torch::Tensor x, const std::vector<double>& coefficients, int steps) {
  for (int step = 0; step < steps; ++step) {
    const torch::Tensor gram = x.bmm(x.mT());
    const torch::Tensor update = torch::baddbmm(gram, gram, gram, coefficients[1], coefficients[2]);
    x = torch::baddbmm(x, update, x, coefficients[0]);
  }
  return x;
}

// Indices of the matrices in each batch.
std::vector<std::vector<std::size_t>> batches_of(const std::vector<torch::Tensor>& values) {
  std::vector<std::vector<std::size_t>> batches;
  std::map<std::tuple<std::int64_t, std::int64_t, torch::Dtype>, std::size_t> open;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto [least, most] = std::minmax({values[i].size(0), values[i].size(1)});
    const auto [found, fresh] =
        open.try_emplace({least, most, values[i].scalar_type()}, batches.size());
    const auto most_matrices = std::max<std::int64_t>(1, kBatchElements / values[i].numel());
    if (!fresh && static_cast<std::int64_t>(batches[found->second].size()) >= most_matrices)
      found->second = batches.size();
    if (found->second == batches.size()) batches.emplace_back();
    batches[found->second].push_back(i);
  }
  return batches;
}

}  // namespace

// The least norm that matrices are divided by. It is the option `eps` of a rule without `ns_eps`, as torch's Muon.
static jit::Value least_norm(const jit::OptionValues& options) {
  return options.get(options.rule().find("ns_eps") != nullptr ? "ns_eps" : "eps");
}

// A rule of the user may declare these options in another way.
static void check_options(const jit::OptionValues& options) {
  const jit::Value coefficients = options.get("ns_coefficients"), steps = options.get("ns_steps");
  const bool fits = coefficients.is_numbers() && coefficients.numbers().size() == 3 &&
                    steps.is_number() && steps.number() >= 0 && steps.number() <= kMaxSteps &&
                    least_norm(options).is_number() && options.get("ns_dtype").is_choice();
  TORCH_CHECK(fits, "jitstep: the host transform newton_schulz cannot use the options of the rule ",
              options.rule().name, ". Declare `Numbers<3> ns_coefficients`, `double eps`, ",
              "`double ns_steps` with the note `integer; in [0, ", kMaxSteps,
              "]`, and a flag `ns_dtype` of an enumeration, as rules/muon.cuh does.");
}

void newton_schulz(const std::vector<torch::Tensor>& values, const jit::OptionValues& options) {
  check_options(options);
  for (const torch::Tensor& one : values)
    TORCH_CHECK(one.dim() == 2,
                "jitstep: the host transform newton_schulz cannot transform a tensor of ",
                one.dim(), " dimensions: it is for matrices. Reject other tensors in the rule: ",
                "`// refuse: dims != 2, ...`.");
  const bool narrow = options.get("ns_dtype").choice() == "bf16";
  for (const auto& batch : batches_of(values)) {
    std::vector<torch::Tensor> all;
    for (const std::size_t i : batch)
      all.push_back(scaled(values[i], narrow ? torch::kBFloat16 : values[i].scalar_type(),
                           least_norm(options).number()));
    const torch::Tensor x =
        orthogonalized(torch::stack(all), options.get("ns_coefficients").numbers(),
                       static_cast<int>(options.get("ns_steps").number()));
    for (std::size_t k = 0; k < batch.size(); ++k) {
      const torch::Tensor& one = values[batch[k]];
      const torch::Tensor result = x[static_cast<std::int64_t>(k)];
      const double factor = rate_factor(one, options);
      one.copy_((is_tall(one) ? result.t() : result).to(one.scalar_type()) * factor);
    }
  }
}

}  // namespace jitstep
