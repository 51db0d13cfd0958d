// Rules with slow weights: Lookahead and Ranger21.
#include <algorithm>
#include <cmath>

#include "optim/reference/reference.h"

namespace jitstep::tests::reference {
namespace {

// arXiv 1907.08610, Algorithm 1: after every k steps of the inner optimizer.
void look_ahead(Tensor& x, double k, double alpha, const Numbers& before) {
  Numbers& slow = x.slot("slow weights");
  if (x.t == 1) slow = before;
  if (std::fmod(x.t, k) != 0) return;
  for (std::size_t i = 0; i < x.size(); ++i) slow[i] += alpha * (x.p[i] - slow[i]);
  x.p = slow;
}

void lookahead_adamw(const Options& o, Tensor& x) {
  const double lr = o.number("lr"), beta1 = o.number("betas", 0), beta2 = o.number("betas", 1);
  const Numbers before = x.p;
  Numbers &m = x.slot("m"), &v = x.slot("v");
  for (std::size_t i = 0; i < x.size(); ++i) {
    average(m[i], beta1, x.g[i]);
    average(v[i], beta2, square(x.g[i]));
    const double size = std::sqrt(v[i]) / std::sqrt(1 - std::pow(beta2, x.t)) + o.number("eps");
    x.p[i] *= 1 - lr * o.number("weight_decay");
    x.p[i] -= lr / (1 - std::pow(beta1, x.t)) * m[i] / size;
  }
  look_ahead(x, o.number("k"), o.number("alpha"), before);
}

// Calls f(first, count) for the elements of each index of dimension 0. A vector is one unit.
template <class F>
void units(const Tensor& x, F&& f) {
  const std::size_t count = x.shape.size() > 1 ? static_cast<std::size_t>(x.shape[0]) : 1;
  for (std::size_t k = 0; k < count; ++k) f(k * (x.size() / count), x.size() / count);
}

double norm_of(const Numbers& x, std::size_t first, std::size_t count) {
  double sum = 0;
  for (std::size_t i = first; i < first + count; ++i) sum += square(x[i]);
  return std::sqrt(sum);
}

// Adaptive gradient clipping (arXiv 2102.06171) by units.
void clip(const Options& o, Tensor& x) {
  units(x, [&](std::size_t first, std::size_t count) {
    const double most =
        std::max(norm_of(x.p, first, count), o.number("agc_eps")) * o.number("agc_clipping_value");
    const double size = std::max(norm_of(x.g, first, count), 1e-6);
    for (std::size_t i = first; size > most && i < first + count; ++i) x.g[i] *= most / size;
  });
}

// Centralizes and normalizes the gradient.
void preprocess(const Options& o, Tensor& x) {
  if (o.on("centralize_gradients") && x.shape.size() > 1)
    units(x, [&](std::size_t first, std::size_t count) {
      double mean = 0;
      for (std::size_t i = first; i < first + count; ++i)
        mean += x.g[i] / static_cast<double>(count);
      for (std::size_t i = first; i < first + count; ++i) x.g[i] -= mean;
    });
  if (!o.on("normalize_gradients") || x.size() <= 2) return;
  const auto n = static_cast<double>(x.size());
  double mean = 0, sum = 0;
  for (const double g : x.g) mean += g / n;
  for (const double g : x.g) sum += square(g - mean);
  for (double& g : x.g) g /= std::sqrt(sum / (n - 1)) + 1e-8;
}

// arXiv 2106.13731 with the details of pytorch_optimizer's Ranger21
void ranger21(const Options& o, const std::vector<Tensor*>& tensors, Shared&) {
  const double lr = o.number("lr"), beta1 = o.number("betas", 0), beta2 = o.number("betas", 1),
               beta0 = o.number("beta0"), eps = o.number("eps");
  double sum = 1, elements = 0;
  for (Tensor* x : tensors) {
    clip(o, *x);
    preprocess(o, *x);
    Numbers& v = x->slot("v");
    for (std::size_t i = 0; i < x->size(); ++i) {
      average(v[i], beta2, square(x->g[i]));
      sum += v[i] / (1 - std::pow(beta2, x->t));
    }
    elements += static_cast<double>(x->size());
  }
  const double decay = o.number("weight_decay") * (o.on("fixed_decay") ? 1 : lr);
  const double shrink = 1 - decay / std::sqrt(sum / elements);
  for (Tensor* x : tensors) {
    const Numbers before = x->p;
    units(*x, [&](std::size_t first, std::size_t count) {
      for (std::size_t i = first; i < first + count; ++i) x->p[i] *= shrink;
      const double size = norm_of(x->p, first, count) + eps;
      for (std::size_t i = first; i < first + count; ++i)
        x->p[i] *= 1 - lr * 2 * o.number("norm_loss_factor") * (1 - 1 / size);
    });
    preprocess(o, *x);
    Numbers &m = x->slot("m"), &negative = x->slot("negative"), &v = x->slot("v"),
            &vmax = x->slot("vmax");
    Numbers &now = x->t % 2 == 1 ? m : negative, &other = x->t % 2 == 1 ? negative : m;
    for (std::size_t i = 0; i < x->size(); ++i) {
      vmax[i] = std::max(vmax[i], v[i]);
      double size = std::sqrt(vmax[i]) / std::sqrt(1 - std::pow(beta2, x->t)) + eps;
      const double scaled = size * o.number("beta_softplus");
      if (o.on("use_softplus") && scaled <= 20)
        size = std::log1p(std::exp(scaled)) / o.number("beta_softplus");
      average(now[i], beta1 * beta1, x->g[i]);
      const double momentum =
          ((1 + beta0) * now[i] - beta0 * other[i]) / std::sqrt(square(1 + beta0) + square(beta0));
      x->p[i] -= lr / (1 - std::pow(beta1, x->t)) * momentum / size;
    }
    look_ahead(*x, o.number("lookahead_merge_time"), o.number("lookahead_blending_alpha"), before);
  }
}

}  // namespace

Rules lookahead_rules() {
  return {{"lookahead_adamw", each(lookahead_adamw)}, {"ranger21", {ranger21}}};
}

}  // namespace jitstep::tests::reference
