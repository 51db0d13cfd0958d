// The rules with the option `caution`: timm's, and those that timm shares with others.
#include <algorithm>
#include <cmath>

#include "optim/reference/reference.h"

namespace jitstep::tests::reference {
namespace {

Numbers cautious(const Options& o, const Numbers& update, const Numbers& g) {
  return o.on("caution") ? caution(update, g) : update;
}

// torch.optim.AdamW. caution, corrected_weight_decay and clipping_threshold are timm's AdamWLegacy. Decay `after` is
// bitsandbytes'. Decay `step_size` is torchastic's.
void adamw(const Options& o, Tensor& x) {
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1);
  const double correction1 = 1 - std::pow(b1, x.t), correction2 = 1 - std::pow(b2, x.t);
  Numbers &m = x.slot("m"), &v = x.slot("v"), &vmax = x.slot("vmax");
  Numbers root(x.size()), size(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    average(m[i], b1, x.g[i]);
    average(v[i], b2, square(x.g[i]));
    vmax[i] = std::max(vmax[i], v[i]);
    root[i] = std::sqrt((o.on("amsgrad") ? vmax[i] : v[i]) / correction2) + o.number("eps");
    size[i] = x.g[i] / root[i];
  }
  const double clip =
      o.has("clipping_threshold") ? std::max(1.0, rms(size) / o.number("clipping_threshold")) : 1;
  const double decay = decay_rate(o) * o.number("weight_decay");
  const Numbers direction = cautious(o, m, x.g);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (o.is("decay", "before")) x.p[i] *= 1 - decay;
    if (o.is("decay", "step_size")) x.p[i] *= 1 - decay / correction1;
    x.p[i] -= o.number("lr") / correction1 * direction[i] / (root[i] * clip);
    if (o.is("decay", "after")) x.p[i] *= 1 - decay;
  }
}

// lion-pytorch's Lion, arXiv 2302.06675, with timm's options.
void lion(const Options& o, Tensor& x) {
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1);
  Numbers& m = x.slot("m");
  Numbers u(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double mean = b1 * m[i] + (1 - b1) * x.g[i];
    u[i] = mean > 0 ? 1 : mean < 0 ? -1 : 0;
    average(m[i], b2, x.g[i]);
  }
  const Numbers step = cautious(o, u, x.g);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x.p[i] *= 1 - decay_rate(o) * o.number("weight_decay");
    x.p[i] -= o.number("lr") * step[i];
  }
}

// timm's Adan, arXiv 2208.06677
void adan(const Options& o, Tensor& x) {
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1), b3 = o.number("betas", 2);
  const double lr = o.number("lr"), decay = lr * o.number("weight_decay");
  Numbers &m = x.slot("m"), &d = x.slot("diff"), &v = x.slot("v"), &previous = x.slot("gprev");
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double change = x.t == 1 ? 0 : x.g[i] - previous[i];
    average(m[i], b1, x.g[i]);
    average(d[i], b2, change);
    average(v[i], b3, square(x.g[i] + b2 * change));
    previous[i] = x.g[i];
  }
  const Numbers direction = cautious(o, m, x.g);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double root = std::sqrt(v[i]) / std::sqrt(1 - std::pow(b3, x.t)) + o.number("eps");
    if (o.on("no_prox")) x.p[i] *= 1 - decay;
    x.p[i] -= lr / (1 - std::pow(b1, x.t)) * direction[i] / root;
    x.p[i] -= lr * b2 / (1 - std::pow(b2, x.t)) * d[i] / root;
    if (!o.on("no_prox")) x.p[i] /= 1 + decay;
  }
}

// timm's Adopt, arXiv 2411.02853
void adopt(const Options& o, Tensor& x) {
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1), wd = o.number("weight_decay");
  Numbers &m = x.slot("m"), &v = x.slot("v");
  Numbers g = x.g;
  if (!o.on("decoupled"))
    for (std::size_t i = 0; i < x.size(); ++i) g[i] += wd * x.p[i];
  if (x.t > 1) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      double u = g[i] / std::max(std::sqrt(v[i]), o.number("eps"));
      if (o.has("clip_exp")) {
        const double most = std::pow(x.t - 1, o.number("clip_exp"));
        u = std::clamp(u, -most, most);
      }
      average(m[i], b1, u);
    }
    const Numbers step = cautious(o, m, g);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (o.on("decoupled")) x.p[i] *= 1 - decay_rate(o) * wd;
      x.p[i] -= o.number("lr") * step[i];
    }
  }
  for (std::size_t i = 0; i < x.size(); ++i)
    v[i] = x.t == 1 ? square(g[i]) : b2 * v[i] + (1 - b2) * square(g[i]);
}

// timm's LaProp, arXiv 2002.04839
void laprop(const Options& o, Tensor& x) {
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1), lr = o.number("lr");
  double &rates = x.scalar("lr1"), &ones = x.scalar("lr2");
  average(rates, b1, lr);
  average(ones, b2, 1);
  Numbers &m = x.slot("m"), &v = x.slot("v");
  for (std::size_t i = 0; i < x.size(); ++i) {
    average(v[i], b2, square(x.g[i]));
    average(m[i], b1, lr * x.g[i] / (std::sqrt(v[i] / ones) + o.number("eps")));
  }
  const Numbers direction = cautious(o, m, x.g);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x.p[i] -= lr / rates * direction[i];
    x.p[i] -= decay_rate(o) * o.number("weight_decay") * x.p[i];
  }
}

// adam-atan2-pytorch, arXiv 2407.05872
void adam_atan2(const Options& o, Tensor& x) {
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1), lr = o.number("lr");
  const double factor = o.number("cautious_factor"), regeneration = o.number("regen_reg_rate");
  const double rate = o.on("decoupled_wd") ? lr / o.number("initial_lr") : lr;
  Numbers &m = x.slot("m"), &v = x.slot("v"), &x0 = x.slot("x0"), u(x.size()), share(x.size(), 1);
  double mean = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    average(m[i], b1, x.g[i]);
    average(v[i], b2, square(x.g[i]));
    u[i] = std::atan2(m[i] / (1 - std::pow(b1, x.t)),
                      o.number("b") * std::sqrt(v[i] / (1 - std::pow(b2, x.t))));
    if (!(u[i] * x.g[i] > 0)) share[i] = factor;
    mean += share[i] / static_cast<double>(x.size());
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (factor < 1) u[i] *= share[i] / std::max(mean, 1e-5);
    if (x.t == 1) x0[i] = x.p[i];
    if (regeneration != 0) x.p[i] += rate * regeneration * (x0[i] - x.p[i]);
    if (!o.on("cautious_wd") || u[i] * x.p[i] > 0) x.p[i] *= 1 - rate * o.number("weight_decay");
    x.p[i] -= lr * o.number("a") * u[i];
  }
}

// timm's MADGRAD, arXiv 2101.11075
void madgrad(const Options& o, Tensor& x) {
  const double wd = o.number("weight_decay"), eps = o.number("eps"), mu = o.number("momentum");
  const double lambda = (o.number("lr") + eps) * std::sqrt(x.t);
  Numbers &v = x.slot("v"), &s = x.slot("s"), &x0 = x.slot("x0");
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x.t == 1) x0[i] = x.p[i];
    double g = x.g[i];
    if (o.on("decoupled_decay"))
      x.p[i] *= 1 - o.number("lr") * wd;
    else
      g += wd * x.p[i];
    const double start = mu == 0 ? x.p[i] + s[i] / (std::cbrt(v[i]) + eps) : x0[i];
    v[i] += lambda * g * g;
    s[i] += lambda * g;
    const double z = start - s[i] / (std::cbrt(v[i]) + eps);
    x.p[i] = mu * x.p[i] + (1 - mu) * z;
  }
}

// timm's Mars, arXiv 2411.10438: corrects the gradient by its change and clips it to norm 1.
Numbers corrected(const Options& o, const Tensor& x, const Numbers& previous) {
  const double b1 = o.number("betas", 0);
  Numbers c = x.g;
  for (std::size_t i = 0; x.t > 1 && i < x.size(); ++i)
    c[i] += o.number("gamma") * b1 / (1 - b1) * (x.g[i] - previous[i]);
  const double size = std::max(1.0, norm(c));
  for (double& value : c) value /= size;
  return c;
}
void mars(const Options& o, Tensor& x) {
  const bool corrects = o.on("optimize_1d") || x.shape.size() >= 2;
  const auto beta = [&](int i) {
    return o.number(corrects || o.json("betas_1d").at(i).is_null() ? "betas" : "betas_1d", i);
  };
  const double b1 = beta(0), b2 = beta(1);
  const double lr = o.number("lr") * (corrects ? 1 : o.number("lr_1d_factor"));
  Numbers &m = x.slot("m"), &v = x.slot("v"), &previous = x.slot("gprev");
  const Numbers c = corrects ? corrected(o, x, previous) : x.g;
  for (std::size_t i = 0; i < x.size(); ++i) {
    average(m[i], b1, c[i]);
    average(v[i], b2, square(c[i]));
  }
  const Numbers direction = cautious(o, m, x.g);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = direction[i], sign = d > 0 ? 1 : d < 0 ? -1 : 0;
    const double root = std::sqrt(v[i]) / std::sqrt(1 - std::pow(b2, x.t)) + o.number("eps");
    const double u =
        corrects && o.is("mars_type", "lion") ? sign : d / (1 - std::pow(b1, x.t)) / root;
    x.p[i] -= lr * (u + o.number("weight_decay") * x.p[i]);
  }
  previous = x.g;
}

// timm's SGDW, arXiv 1711.05101
void sgdw(const Options& o, Tensor& x) {
  const double mu = o.number("momentum");
  Numbers& m = x.slot("m");
  Numbers u(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    m[i] = x.t == 1 ? x.g[i] : mu * m[i] + (1 - o.number("dampening")) * x.g[i];
    u[i] = mu == 0 ? x.g[i] : o.on("nesterov") ? x.g[i] + mu * m[i] : m[i];
  }
  const Numbers step = mu == 0 ? u : cautious(o, u, x.g);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x.p[i] *= 1 - decay_rate(o) * o.number("weight_decay");
    x.p[i] -= o.number("lr") * step[i];
  }
}

}  // namespace

Rules cautious_rules() {
  return {{"adam_atan2", each(adam_atan2)},
          {"adamw", each(adamw)},
          {"lion", each(lion)},
          {"adan", each(adan)},
          {"adopt", each(adopt)},
          {"laprop", each(laprop)},
          {"madgrad", each(madgrad)},
          {"mars", each(mars)},
          {"sgdw", each(sgdw)}};
}

}  // namespace jitstep::tests::reference
