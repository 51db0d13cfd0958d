// Functions that the families of references share.
#include "optim/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace jitstep::tests::reference {

const Rules& rules() {
  static const Rules all = [] {
    Rules rules;
    for (const auto family :
         {torch_rules, adam_rules, cautious_rules, layerwise_rules, factored_rules,
          orthogonal_rules, preconditioned_rules, shared_rules, paper_rules, lookahead_rules})
      rules.merge(family());
    return rules;
  }();
  return all;
}

Rule each(void (*step)(const Options&, Tensor&)) {
  return {[step](const Options& o, const std::vector<Tensor*>& tensors, Shared&) {
    for (Tensor* tensor : tensors) step(o, *tensor);
  }};
}

double square(double x) { return x * x; }

void average(double& mean, double beta, double value) { mean = beta * mean + (1 - beta) * value; }

double norm(const Numbers& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

double rms(const Numbers& x) { return norm(x) / std::sqrt(static_cast<double>(x.size())); }

Numbers caution(const Numbers& update, const Numbers& g) {
  double agreeing = 0;
  for (std::size_t i = 0; i < g.size(); ++i) agreeing += update[i] * g[i] > 0;
  const double mean = std::max(agreeing / static_cast<double>(g.size()), 1e-3);
  Numbers cautious(g.size());
  for (std::size_t i = 0; i < g.size(); ++i)
    cautious[i] = update[i] * g[i] > 0 ? update[i] / mean : 0;
  return cautious;
}

double decay_rate(const Options& o) {
  const double lr = o.number("lr");
  return o.on("corrected_weight_decay") ? lr * lr / o.number("initial_lr") : lr;
}

namespace {

void centralize(Tensor& x, double share) {
  const std::size_t groups = x.shape.size() > 1 ? static_cast<std::size_t>(x.shape[0]) : 1;
  const std::size_t length = x.size() / groups;
  for (std::size_t k = 0; k < groups; ++k) {
    const auto first = x.g.begin() + static_cast<std::ptrdiff_t>(k * length);
    const auto last = first + static_cast<std::ptrdiff_t>(length);
    const double mean = std::accumulate(first, last, 0.0) / static_cast<double>(length);
    for (auto g = first; g != last; ++g) *g -= share * mean;
  }
}

}  // namespace

void prepare_gradients(const Options& o, Preparation how, const std::vector<Tensor*>& tensors) {
  const double scale = (o.on("maximize") ? -1 : 1) / o.number("grad_scale");
  double sum = 0;
  for (Tensor* x : tensors)
    for (double& g : x->g) sum += square(g *= scale);
  const double most = how.clips ? o.number("max_grad_norm") : 0;
  const double factor = most == 0 ? 1 : std::min(1.0, most / (std::sqrt(sum) + 1e-6));
  for (Tensor* x : tensors) {
    for (double& g : x->g) g *= factor;
    if (x->shape.size() > 1 || how.centralizes_vectors) centralize(*x, o.number("centralization"));
  }
}

}  // namespace jitstep::tests::reference
