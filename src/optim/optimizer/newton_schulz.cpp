// The iteration of torch.optim.Muon, operation by operation.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "optim/optimizer/stages.h"

namespace jitstep {
namespace {

double rate_factor(const torch::Tensor& values, const std::string& adjust) {
  const auto rows = static_cast<double>(values.size(0)),
             columns = static_cast<double>(values.size(1));
  if (adjust == "match_rms_adamw") return 0.2 * std::sqrt(std::max(rows, columns));
  return std::sqrt(std::max(1.0, rows / columns));
}

// Of no more rows than columns; each of the three results of a round is rounded once.
torch::Tensor orthogonalised(torch::Tensor x, const std::vector<double>& coefficients, int steps,
                             double eps) {
  x.div_(x.norm().clamp_min(eps));  // no singular value is above 1
  for (int step = 0; step < steps; ++step) {
    const torch::Tensor gram = x.mm(x.t());
    const torch::Tensor update = torch::addmm(gram, gram, gram, coefficients[1], coefficients[2]);
    x = torch::addmm(x, update, x, coefficients[0]);
  }
  return x;
}

}  // namespace

torch::Tensor newton_schulz(const torch::Tensor& values, const jit::OptionValues& options) {
  TORCH_CHECK(values.dim() == 2,
              "the host stage newton_schulz is for matrices, not for a tensor of ", values.dim(),
              " dimensions; refuse them in the rule: `// refuse: dims != 2, ...`");
  const bool narrow = options.get("ns_dtype").choice() == "bf16";
  const auto dtype = narrow ? torch::kBFloat16 : values.scalar_type();
  const torch::Tensor copy = values.to(dtype, /*non_blocking=*/false, /*copy=*/true);
  const bool tall = values.size(0) > values.size(1);
  const torch::Tensor x = orthogonalised(
      tall ? copy.t() : copy, options.get("ns_coefficients").numbers(),
      static_cast<int>(options.get("ns_steps").number()), options.get("eps").number());
  const double factor = rate_factor(values, options.get("adjust_lr_fn").choice());
  return (tall ? x.t() : x).to(values.scalar_type()) * factor;
}

}  // namespace jitstep
