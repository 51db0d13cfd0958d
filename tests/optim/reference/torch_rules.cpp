// The rules of torch.optim except the Adam family, after torch 2.13's single-tensor functions. torch's documentation
// writes each as an algorithm.
#include <algorithm>
#include <cmath>

#include "optim/reference/reference.h"

namespace jitstep::tests::reference {
namespace {

// torch.optim.SGD. max_unorm is bitsandbytes' PytorchLARS.
void sgd(const Options& o, Tensor& x) {
  const double mu = o.number("momentum"), most = o.number("max_unorm");
  Numbers& m = x.slot("m");
  Numbers u(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double g = x.g[i] + o.number("weight_decay") * x.p[i];
    m[i] = x.t == 1 ? g : mu * m[i] + (1 - o.number("dampening")) * g;
    u[i] = mu == 0 ? g : o.on("nesterov") ? g + mu * m[i] : m[i];
  }
  const double size = most == 0 ? 1 : std::min(1.0, most * norm(x.p) / norm(u));
  for (std::size_t i = 0; i < x.size(); ++i) x.p[i] -= o.number("lr") * size * u[i];
}

// torch.optim.RMSprop. bias_correction and decoupled_weight_decay are torchastic's RMSProp (which has neither momentum
// nor a centered form).
void rmsprop(const Options& o, Tensor& x) {
  const double lr = o.number("lr"), alpha = o.number("alpha"), wd = o.number("weight_decay");
  const double correction = o.on("bias_correction") ? 1 - std::pow(alpha, x.t) : 1;
  Numbers &v = x.slot("v"), &average = x.slot("gavg"), &buffer = x.slot("m");
  for (std::size_t i = 0; i < x.size(); ++i) {
    double g = x.g[i];
    if (o.on("decoupled_weight_decay"))
      x.p[i] *= 1 - lr * wd;
    else
      g += wd * x.p[i];
    v[i] = alpha * v[i] + (1 - alpha) * g * g;
    average[i] = alpha * average[i] + (1 - alpha) * g;
    const double square = o.on("centered") ? v[i] - average[i] * average[i] : v[i];
    const double step = g / (std::sqrt(square / correction) + o.number("eps"));
    buffer[i] = o.number("momentum") * buffer[i] + step;
    x.p[i] -= lr * buffer[i];
  }
}

// torch.optim.Adagrad
void adagrad(const Options& o, Tensor& x) {
  const double lr = o.number("lr") / (1 + (x.t - 1) * o.number("lr_decay"));
  Numbers& sum = x.slot("v", o.number("initial_accumulator_value"));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double g = x.g[i] + o.number("weight_decay") * x.p[i];
    sum[i] += g * g;
    x.p[i] -= lr * g / (std::sqrt(sum[i]) + o.number("eps"));
  }
}

// torch.optim.Adadelta
void adadelta(const Options& o, Tensor& x) {
  const double rho = o.number("rho"), eps = o.number("eps");
  Numbers &v = x.slot("v"), &acc = x.slot("acc");
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double g = x.g[i] + o.number("weight_decay") * x.p[i];
    v[i] = rho * v[i] + (1 - rho) * g * g;
    const double u = std::sqrt(acc[i] + eps) / std::sqrt(v[i] + eps) * g;
    acc[i] = rho * acc[i] + (1 - rho) * u * u;
    x.p[i] -= o.number("lr") * u;
  }
}

// torch.optim.ASGD: eta and mu are those of the previous step.
void asgd(const Options& o, Tensor& x) {
  const double lr = o.number("lr"), lambd = o.number("lambd");
  double &eta = x.scalar("eta", lr), &mu = x.scalar("mu", 1);
  Numbers& ax = x.slot("ax");
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double g = x.g[i] + o.number("weight_decay") * x.p[i];
    x.p[i] = x.p[i] * (1 - lambd * eta) - eta * g;
    ax[i] = mu == 1 ? x.p[i] : ax[i] + mu * (x.p[i] - ax[i]);
  }
  eta = lr / std::pow(1 + lambd * lr * x.t, o.number("alpha"));
  mu = 1 / std::max(1.0, x.t - o.number("t0"));
}

// torch.optim.Rprop
void rprop(const Options& o, Tensor& x) {
  Numbers &prev = x.slot("prev"), &size = x.slot("step_size", o.number("lr"));
  for (std::size_t i = 0; i < x.size(); ++i) {
    double g = x.g[i];
    const double product = g * prev[i];
    if (product > 0) size[i] *= o.number("etas", 1);
    if (product < 0) size[i] *= o.number("etas", 0);
    size[i] = std::clamp(size[i], o.number("step_sizes", 0), o.number("step_sizes", 1));
    if (product < 0) g = 0;
    if (g != 0) x.p[i] -= g > 0 ? size[i] : -size[i];
    prev[i] = g;
  }
}

}  // namespace

Rules torch_rules() {
  return {{"sgd", each(sgd)},           {"rmsprop", each(rmsprop)}, {"adagrad", each(adagrad)},
          {"adadelta", each(adadelta)}, {"asgd", each(asgd)},       {"rprop", each(rprop)}};
}

}  // namespace jitstep::tests::reference
