// Rules that use norms of whole tensors: LAMB, LARS and their relatives.
#include <algorithm>
#include <cmath>

#include "optim/reference/reference.h"

namespace jitstep::tests::reference {
namespace {

// Adam's direction plus the decay term.
Numbers adam_update(const Options& o, Tensor& x, bool corrected) {
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1);
  const double bc1 = corrected ? 1 - std::pow(b1, x.t) : 1;
  const double bc2 = corrected ? 1 - std::pow(b2, x.t) : 1;
  Numbers &m = x.slot("m"), &v = x.slot("v");
  Numbers u(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    average(m[i], b1, x.g[i]);
    average(v[i], b2, square(x.g[i]));
    u[i] = m[i] / bc1 / (std::sqrt(v[i] / bc2) + o.number("eps"));
    u[i] += o.number("weight_decay") * x.p[i];
  }
  return u;
}

void move(Tensor& x, double size, const Numbers& u) {
  for (std::size_t i = 0; i < x.size(); ++i) x.p[i] -= size * u[i];
}

// LAMB, arXiv 1904.00962, Algorithm 2. phi is a clamp as in cybertronai/pytorch-lamb.
void lamb(const Options& o, Tensor& x) {
  const Numbers u = adam_update(o, x, o.on("bias_correction"));
  double weights = norm(x.p);
  if (o.has("weight_norm_max")) weights = std::min(weights, o.number("weight_norm_max"));
  const bool trusts = o.on("adapt") && weights != 0 && norm(u) != 0;
  move(x, o.number("lr") * (trusts ? weights / norm(u) : 1), u);
}

// vxst/LAMB16 without its 8-bit state. The corrected form has bias corrections, and no cap per element.
void lamb16(const Options& o, Tensor& x) {
  const bool original = o.is("form", "original");
  const Numbers u = adam_update(o, x, !original);
  const auto clipped_norm = [&](const Numbers& values) {
    double sum = 0;
    for (const double value : values)
      sum += std::clamp(value * value, o.number("eps"), original ? 1 : HUGE_VAL);
    return std::sqrt(sum) / static_cast<double>(values.size());
  };
  const double ratio = clipped_norm(x.p) / clipped_norm(u) / o.number("lr") * 1e-3;
  const double trust = std::clamp(std::pow(ratio, o.number("trust_scale")), 0.0, 2.0);
  move(x, o.number("lr") * (o.on("adapt") ? trust : 1), u);
}

// apex's FusedLAMB: multi_tensor_lamb.cu. The norm covers all gradients.
void nvlamb_tensor(const Options& o, Tensor& x, double divisor) {
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1), wd = o.number("weight_decay");
  const double fresh = o.on("grad_averaging") ? 1 - b1 : 1;
  const double bc1 = o.on("bias_correction") ? 1 - std::pow(b1, x.t) : 1;
  const double bc2 = o.on("bias_correction") ? 1 - std::pow(b2, x.t) : 1;
  Numbers &m = x.slot("m"), &v = x.slot("v");
  Numbers u(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    double g = x.g[i] / divisor;
    if (!o.on("adam_w_mode")) g += wd * x.p[i];
    m[i] = b1 * m[i] + fresh * g;
    v[i] = b2 * v[i] + (1 - b2) * g * g;
    u[i] = m[i] / bc1 / (std::sqrt(v[i] / bc2) + o.number("eps"));
    if (o.on("adam_w_mode")) u[i] += wd * x.p[i];
  }
  const double weights = norm(x.p), size = norm(u);
  const bool adapts = (o.on("use_nvlamb") || wd != 0) && weights != 0 && size != 0;
  move(x, o.number("lr") * (adapts ? weights / size : 1), u);
}
void nvlamb(const Options& o, const std::vector<Tensor*>& tensors, Shared&) {
  double sum = 0;
  for (const Tensor* x : tensors) sum += square(norm(x->g));
  const double global = std::sqrt(sum), most = o.number("max_grad_norm");
  const double divisor = most != 0 && global > most ? global / most : 1;
  for (Tensor* x : tensors) nvlamb_tensor(o, *x, divisor);
}

// LARS, arXiv 1708.03888. The forms are `classic` (TensorFlow's Model Garden and optax), `popular` (TensorFlow 1) and
// `scaled` (timm). The trust norms come from the same sources.
double lars_trust(const Options& o, const Tensor& x, double norms) {
  const double weights = norm(x.p);
  if (!o.on("adapt") || weights == 0 || norms == 0) return 1;
  return o.number("trust_coefficient") * weights / (norms + o.number("eps"));
}
void lars(const Options& o, Tensor& x) {
  const double lr = o.number("lr"), mu = o.number("momentum"), wd = o.number("weight_decay");
  const bool classic = o.is("momentum_form", "classic"), popular = o.is("momentum_form", "popular");
  Numbers d(x.size()), u(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) d[i] = x.g[i] + wd * x.p[i];
  double trust = 1;
  if (o.is("trust_norm", "separate") && norm(x.g) != 0)
    trust = lars_trust(o, x, norm(x.g) + wd * norm(x.p));
  if (o.is("trust_norm", "combined")) trust = lars_trust(o, x, norm(d));
  const double inside = (classic ? lr : 1) * (popular ? 1 : trust);
  Numbers& m = x.slot("m");
  for (std::size_t i = 0; i < x.size(); ++i) {
    m[i] = mu * m[i] + inside * d[i];
    u[i] = o.on("nesterov") ? inside * d[i] + mu * m[i] : m[i];
  }
  if (o.is("trust_norm", "update")) trust = lars_trust(o, x, norm(u));
  move(x, (classic ? 1 : lr) * (popular ? trust : 1), u);
}

// apex's LARC around torch.optim.SGD. LARC applies the weight decay in its place.
void larc(const Options& o, Tensor& x) {
  const double lr = o.number("lr"), wd = o.number("weight_decay"), mu = o.number("momentum");
  const double weights = norm(x.p), gradient = norm(x.g);
  double size = 1, decay = wd;
  if (o.on("adapt")) {
    decay = weights != 0 && gradient != 0 ? wd : 0;
    size = o.number("trust_coefficient") * weights / (gradient + wd * weights + o.number("eps"));
    if (o.on("clip")) size = std::min(size / lr, 1.0);
    if (weights == 0 || gradient == 0) size = 1;
  }
  Numbers& m = x.slot("m");
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double g = (x.g[i] + decay * x.p[i]) * size;
    m[i] = x.t == 1 ? g : mu * m[i] + g;
    x.p[i] -= lr * m[i];
  }
}

// NovoGrad, arXiv 1905.11286: NVIDIA's Jasper form, and apex's FusedNovoGrad (multi_tensor_novograd.cu).
void novograd(const Options& o, Tensor& x) {
  const double lr = o.number("lr"), wd = o.number("weight_decay"), eps = o.number("eps");
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1);
  const double bc1 = o.on("bias_correction") ? 1 - std::pow(b1, x.t) : 1;
  const double bc2 = o.on("bias_correction") ? 1 - std::pow(b2, x.t) : 1;
  const double fresh = o.on("grad_averaging") ? 1 - b1 : 1;
  double& v = x.scalar("v");
  v = x.t == 1 && !o.on("init_zero") ? square(norm(x.g)) : b2 * v + (1 - b2) * square(norm(x.g));
  const double root = std::sqrt(v) / std::sqrt(bc2) + eps;
  Numbers& m = x.slot("m");
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool inside = o.on("reg_inside_moment");
    m[i] = b1 * m[i] + fresh * (inside ? x.g[i] / root + wd * x.p[i] : x.g[i]);
    x.p[i] -= lr * (inside ? m[i] / bc1 : m[i] / bc1 / root + wd * x.p[i]);
  }
}

}  // namespace

Rules layerwise_rules() {
  return {{"lamb", each(lamb)}, {"lamb16", each(lamb16)}, {"nvlamb", {nvlamb}},
          {"lars", each(lars)}, {"larc", each(larc)},     {"novograd", each(novograd)}};
}

}  // namespace jitstep::tests::reference
