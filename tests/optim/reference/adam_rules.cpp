// Adam and its elementwise relatives.
#include <algorithm>
#include <cmath>

#include "optim/reference/reference.h"

namespace jitstep::tests::reference {
namespace {

// torch.optim.Adam
void adam(const Options& o, Tensor& x) {
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1);
  Numbers &m = x.slot("m"), &v = x.slot("v"), &vmax = x.slot("vmax");
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double g = x.g[i] + o.number("weight_decay") * x.p[i];
    average(m[i], b1, g);
    average(v[i], b2, g * g);
    vmax[i] = std::max(vmax[i], v[i]);
    const double second = o.on("amsgrad") ? vmax[i] : v[i];
    const double root = std::sqrt(second) / std::sqrt(1 - std::pow(b2, x.t)) + o.number("eps");
    x.p[i] -= o.number("lr") / (1 - std::pow(b1, x.t)) * m[i] / root;
  }
}

// torch.optim.Adamax
void adamax(const Options& o, Tensor& x) {
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1);
  Numbers &m = x.slot("m"), &u = x.slot("v");
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double g = x.g[i] + o.number("weight_decay") * x.p[i];
    average(m[i], b1, g);
    u[i] = std::max(b2 * u[i], std::abs(g) + o.number("eps"));
    x.p[i] -= o.number("lr") / (1 - std::pow(b1, x.t)) * m[i] / u[i];
  }
}

// torch.optim.NAdam
void nadam(const Options& o, Tensor& x) {
  const double lr = o.number("lr"), b1 = o.number("betas", 0), b2 = o.number("betas", 1);
  const auto mu = [&](int t) {
    return b1 * (1 - 0.5 * std::pow(0.96, t * o.number("momentum_decay")));
  };
  double& product = x.scalar("mu_product", 1);
  product *= mu(x.t);
  Numbers &m = x.slot("m"), &v = x.slot("v");
  for (std::size_t i = 0; i < x.size(); ++i) {
    double g = x.g[i];
    if (o.on("decoupled_weight_decay"))
      x.p[i] *= 1 - lr * o.number("weight_decay");
    else
      g += o.number("weight_decay") * x.p[i];
    average(m[i], b1, g);
    average(v[i], b2, g * g);
    const double root = std::sqrt(v[i] / (1 - std::pow(b2, x.t))) + o.number("eps");
    x.p[i] -= lr * (1 - mu(x.t)) / (1 - product) * g / root;
    x.p[i] -= lr * mu(x.t + 1) / (1 - product * mu(x.t + 1)) * m[i] / root;
  }
}

// torch.optim.RAdam
void radam(const Options& o, Tensor& x) {
  const double lr = o.number("lr"), b1 = o.number("betas", 0), b2 = o.number("betas", 1);
  const double correction1 = 1 - std::pow(b1, x.t), correction2 = 1 - std::pow(b2, x.t);
  const double infinite = 2 / (1 - b2) - 1;
  const double rho = infinite - 2 * x.t * std::pow(b2, x.t) / correction2;
  const double rectified =
      rho > 5
          ? std::sqrt((rho - 4) * (rho - 2) * infinite / ((infinite - 4) * (infinite - 2) * rho))
          : 0;
  Numbers &m = x.slot("m"), &v = x.slot("v");
  for (std::size_t i = 0; i < x.size(); ++i) {
    double g = x.g[i];
    if (o.on("decoupled_weight_decay"))
      x.p[i] *= 1 - lr * o.number("weight_decay");
    else
      g += o.number("weight_decay") * x.p[i];
    average(m[i], b1, g);
    average(v[i], b2, g * g);
    const double adaptive = std::sqrt(correction2) / (std::sqrt(v[i]) + o.number("eps"));
    x.p[i] -= lr * m[i] / correction1 * (rho > 5 ? adaptive * rectified : 1);
  }
}

// pytorch_optimizer's AdaBelief, arXiv 2010.07468, with the rectification of arXiv 1908.03265.
void adabelief(const Options& o, Tensor& x) {
  const double lr = o.number("lr"), wd = o.number("weight_decay"), eps = o.number("eps");
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1);
  const double correction1 = o.on("adam_debias") ? 1 : 1 - std::pow(b1, x.t);
  const double correction2 = 1 - std::pow(b2, x.t);
  const double most = 2 / (1 - b2) - 1, n = most - 2 * x.t * std::pow(b2, x.t) / correction2;
  const bool sure = n >= o.number("n_sma_threshold");
  Numbers &m = x.slot("m"), &v = x.slot("v"), &vmax = x.slot("vmax");
  for (std::size_t i = 0; i < x.size(); ++i) {
    double g = x.g[i];
    if (o.on("weight_decouple"))
      x.p[i] *= 1 - wd * (o.on("fixed_decay") ? 1 : lr);
    else
      g += wd * x.p[i];
    average(m[i], b1, g);
    average(v[i], b2, square(g - m[i]));
    v[i] += eps;
    vmax[i] = std::max(vmax[i], v[i]);
    const double root = std::sqrt(o.on("ams_bound") ? vmax[i] : v[i]);
    double step = m[i] / (root / std::sqrt(correction2) + eps);
    if (o.on("rectify")) {
      const double part = (n - 4) / (most - 4) * (n - 2) / (most - 2) * most / n;
      step = sure                         ? m[i] / (root + eps) * std::sqrt(correction2 * part)
             : o.on("degenerated_to_sgd") ? m[i]
                                          : 0;
    }
    x.p[i] -= lr / correction1 * step;
  }
}

// apple/ml-ademamix, arXiv 2409.03137, except decay `after`, which is bitsandbytes'. The half-life of beta3 grows
// linearly (without apple's 1e-8 in the logarithm).
void ademamix(const Options& o, Tensor& x) {
  const double lr = o.number("lr"), wd = o.number("weight_decay");
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1), last = o.number("betas", 2);
  const auto progress = [&](const char* steps) {
    return o.has(steps) ? std::min(x.t / o.number(steps), 1.0) : 1.0;
  };
  const auto half_life = [](double beta) { return std::log(0.5) / std::log(beta) - 1; };
  const double grown = progress("t_beta3");
  const double life = (1 - grown) * half_life(b1) + grown * half_life(last);
  const double b3 = std::pow(0.5, 1 / (life + 1)), alpha = o.number("alpha") * progress("t_alpha");
  const double bc1 = 1 - std::pow(b1, x.t), bc2 = 1 - std::pow(b2, x.t);
  Numbers &m1 = x.slot("m"), &v = x.slot("v"), &m2 = x.slot("m2");
  for (std::size_t i = 0; i < x.size(); ++i) {
    average(m1[i], b1, x.g[i]);
    average(m2[i], b3, x.g[i]);
    average(v[i], b2, square(x.g[i]));
    const double root = std::sqrt(v[i]) / std::sqrt(bc2) + o.number("eps");
    if (o.is("decay", "before")) x.p[i] -= lr * wd * x.p[i];
    x.p[i] -= lr * (m1[i] / bc1 + alpha * m2[i]) / root;
    if (o.is("decay", "after")) x.p[i] -= lr * wd * x.p[i];
  }
}

// arogozhnikov/adamw_bfloat16's AdamW_BF16 in exact arithmetic. The shift is then always 0.
void adamw_bf16(const Options& o, Tensor& x) {
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1);
  const double progress = (x.t + 1) / o.number("preheat_steps");
  const double lr =
      std::min(progress, std::pow(progress, o.number("decay_power"))) * o.number("lr");
  const auto& first = o.json("initial_accumulated_decay");
  double& saved =
      x.scalar("accumulated_decay", first.empty() ? 0 : first.at(x.number).get<double>());
  saved += o.number("weight_decay") * lr;
  const double decay = saved > 5e-3 ? saved : 0;
  if (decay > 0) saved = 0;
  Numbers &m = x.slot("m"), &v = x.slot("v");
  for (std::size_t i = 0; i < x.size(); ++i) {
    average(m[i], b1, x.g[i]);
    average(v[i], b2, square(x.g[i]));
    const double root = std::sqrt(v[i]) + o.number("eps");
    x.p[i] -= lr * std::sqrt(1 - std::pow(b2, x.t)) * m[i] / root;
    x.p[i] -= decay * x.p[i];
  }
}

// torchastic's Compass
void compass(const Options& o, Tensor& x) {
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1);
  const double size = o.number("lr") / (1 - std::pow(b1, x.t));
  Numbers &m = x.slot("m"), &v = x.slot("v");
  for (std::size_t i = 0; i < x.size(); ++i) {
    average(m[i], b1, x.g[i]);
    const double g = x.g[i] + o.number("amp_fac") * m[i];
    average(v[i], b2, g * g);
    const double root = std::sqrt(v[i]) / std::sqrt(1 - std::pow(b2, x.t)) + o.number("eps");
    x.p[i] *= 1 - size * o.number("weight_decay");
    x.p[i] -= size * g / root;
  }
}

// torchastic's LPFAdamW
void lpf_adamw(const Options& o, Tensor& x) {
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1), b3 = o.number("betas", 2);
  const double size = o.number("lr") / (1 - std::pow(b2, x.t));
  Numbers &s = x.slot("s"), &m = x.slot("m"), &v = x.slot("v");
  for (std::size_t i = 0; i < x.size(); ++i) {
    average(s[i], b1, x.g[i]);
    const double g = x.g[i] + o.number("amp_fac") * s[i];
    average(m[i], b2, g);
    average(v[i], b3, g * g);
    const double root = std::sqrt(v[i]) / std::sqrt(1 - std::pow(b3, x.t)) + o.number("eps");
    x.p[i] *= 1 - size * o.number("weight_decay");
    x.p[i] -= size * m[i] / root;
  }
}

// pytorch_optimizer's Tiger
void tiger(const Options& o, Tensor& x) {
  const double lr = o.number("lr"), wd = o.number("weight_decay"), beta = o.number("beta");
  Numbers& m = x.slot("m");
  for (std::size_t i = 0; i < x.size(); ++i) {
    double g = x.g[i];
    if (o.on("weight_decouple"))
      x.p[i] *= 1 - wd * (o.on("fixed_decay") ? 1 : lr);
    else
      g += wd * x.p[i];
    average(m[i], beta, g);
    if (m[i] != 0) x.p[i] -= m[i] > 0 ? lr : -lr;
  }
}

}  // namespace

Rules adam_rules() {
  return {{"adam", each(adam)},           {"adamax", each(adamax)},
          {"nadam", each(nadam)},         {"radam", each(radam)},
          {"adabelief", each(adabelief)}, {"ademamix", each(ademamix)},
          {"compass", each(compass)},     {"adamw_bf16", each(adamw_bf16)},
          {"tiger", each(tiger)},         {"lpf_adamw", each(lpf_adamw)}};
}

}  // namespace jitstep::tests::reference
