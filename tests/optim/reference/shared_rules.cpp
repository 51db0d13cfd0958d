// Rules with shared state: estimated step sizes, schedule-free averages.
#include <algorithm>
#include <cmath>
#include <limits>

#include "optim/reference/reference.h"

namespace jitstep::tests::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double number_or(const Options& o, const char* name, double otherwise) {
  return o.has(name) ? o.number(name) : otherwise;
}

// Bias correction by the global step, which Prodigy and DAdaptAdam multiply into the learning rate.
double corrected_lr(const Options& o, double k) {
  if (!o.on("use_bias_correction")) return o.number("lr");
  return o.number("lr") * std::sqrt(1 - std::pow(o.number("betas", 1), k + 1)) /
         (1 - std::pow(o.number("betas", 0), k + 1));
}

void add_coupled_decay(const Options& o, Tensor& x) {
  if (o.on("decouple")) return;
  for (std::size_t i = 0; i < x.size(); ++i) x.g[i] += o.number("weight_decay") * x.p[i];
}

// prodigyopt's Prodigy, arXiv 2306.06101. Adds the contributions of a tensor to <g, p0 - p> and |s|.
void prodigy_sums(const Options& o, Tensor& x, double d, double rate, double& product,
                  double& size) {
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1);
  const double b3 = number_or(o, "beta3", std::sqrt(b2)), relative = d / o.number("d0");
  const auto slice = static_cast<std::size_t>(o.number("slice_p"));
  Numbers &m = x.slot("m"), &v = x.slot("v"), &s = x.slot("s"), &p0 = x.slot("p0");
  if (x.t == 1) p0 = x.p;
  for (std::size_t i = 0; i < x.size(); ++i) {
    m[i] = b1 * m[i] + d * (1 - b1) * x.g[i];
    v[i] = b2 * v[i] + d * d * (1 - b2) * square(x.g[i]);
    if (i % slice != 0) continue;
    product += relative * rate * x.g[i] * (p0[i] - x.p[i]);
    s[i] = b3 * s[i] + relative * (o.on("safeguard_warmup") ? d : rate) * x.g[i];
    size += std::abs(s[i]);
  }
}
void prodigy_step(const Options& o, Tensor& x, double d, double rate) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double m = o.number("betas", 0) == 0 ? d * x.g[i] : x.slot("m")[i];
    if (o.on("decouple")) x.p[i] -= o.number("weight_decay") * rate * x.p[i];
    x.p[i] -= rate * m / (std::sqrt(x.slot("v")[i]) + d * o.number("eps"));
  }
}
void prodigy(const Options& o, const std::vector<Tensor*>& tensors, Shared& all) {
  const double d0 = o.number("d0");
  double& d = all.try_emplace("d", d0).first->second;
  double &d_max = all.try_emplace("d_max", d0).first->second, &sum = all["d_numerator"];
  const double rate = d * corrected_lr(o, all["k"]);
  const double b3 = number_or(o, "beta3", std::sqrt(o.number("betas", 1)));
  double product = 0, size = 0;
  for (Tensor* x : tensors) {
    add_coupled_decay(o, *x);
    prodigy_sums(o, *x, d, rate, product, size);
  }
  if (size == 0) return;
  sum = b3 * sum + product;
  const double found = o.number("d_coef") * sum / size;
  if (d == d0) d = std::max(d, found);
  d_max = std::max(d_max, found);
  d = std::min(d_max, d * number_or(o, "growth_rate", kInfinity));
  for (Tensor* x : tensors) prodigy_step(o, *x, d, rate);
  all["k"] += 1;
}

// dadaptation's DAdaptAdam, arXiv 2301.07733
void dadapt_sums(const Options& o, Tensor& x, double rate, double& product, double& size) {
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1), root = std::sqrt(b2);
  Numbers &m = x.slot("m"), &v = x.slot("v"), &s = x.slot("s");
  for (std::size_t i = 0; i < x.size(); ++i) {
    product += rate * x.g[i] * s[i] / (std::sqrt(v[i]) + o.number("eps"));
    m[i] = b1 * m[i] + rate * (1 - b1) * x.g[i];
    v[i] = b2 * v[i] + (1 - b2) * square(x.g[i]);
    s[i] = root * s[i] + rate * (1 - root) * x.g[i];
    size += std::abs(s[i]);
  }
}
void dadapt_adam(const Options& o, const std::vector<Tensor*>& tensors, Shared& all) {
  double &d = all.try_emplace("d", o.number("d0")).first->second, &sum = all["numerator_weighted"];
  const double rate = d * corrected_lr(o, all["k"]), root = std::sqrt(o.number("betas", 1));
  double product = 0, size = 0;
  for (Tensor* x : tensors) {
    add_coupled_decay(o, *x);
    dadapt_sums(o, *x, rate, product, size);
  }
  if (size == 0) return;
  sum = root * sum + (1 - root) * product;
  const double found = sum / ((1 - root) * size);
  d = std::max(d, std::min(found, d * number_or(o, "growth_rate", kInfinity)));
  for (Tensor* x : tensors)
    for (std::size_t i = 0; i < x->size(); ++i) {
      if (o.on("decouple")) x->p[i] -= o.number("weight_decay") * rate * x->p[i];
      x->p[i] -= x->slot("m")[i] / (std::sqrt(x->slot("v")[i]) + o.number("eps"));
    }
  all["k"] += 1;
}

// schedulefree's AdamWScheduleFree and SGDScheduleFree, arXiv 2405.15682. The parameter is the training point y.
struct Schedule {
  double rate, share;  // the rate of z's step, and the weight of z in the average
};
Schedule schedule(const Options& o, Shared& all) {
  const double k = all["k"], warmup = o.number("warmup_steps");
  double& lr_max = all.try_emplace("lr_max", -1).first->second;
  double& weights = all["weight_sum"];
  const double rate = o.number("lr") * (k < warmup ? (k + 1) / warmup : 1);
  lr_max = std::max(lr_max, rate);
  const double weight =
      std::pow(k + 1, o.number("r")) * std::pow(lr_max, o.number("weight_lr_power"));
  weights += weight;
  all["k"] += 1;
  return {rate, weights == 0 ? 0 : weight / weights};
}
void schedule_free(Tensor& x, Schedule now, double beta, const Numbers& u) {
  Numbers& z = x.slot("z");
  if (x.t == 1) z = x.p;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x.p[i] += now.share * (z[i] - x.p[i]);
    x.p[i] += now.rate * (beta * (1 - now.share) - 1) * u[i];
    z[i] -= now.rate * u[i];
  }
}
void schedulefree_adamw(const Options& o, const std::vector<Tensor*>& tensors, Shared& all) {
  const Schedule now = schedule(o, all);
  const double b2 = o.number("betas", 1), bc2 = 1 - std::pow(b2, all["k"]);
  for (Tensor* x : tensors) {
    Numbers& v = x->slot("v");
    Numbers u(x->size());
    for (std::size_t i = 0; i < x->size(); ++i) {
      average(v[i], b2, square(x->g[i]));
      u[i] =
          x->g[i] / (std::sqrt(v[i] / bc2) + o.number("eps")) + o.number("weight_decay") * x->p[i];
    }
    schedule_free(*x, now, o.number("betas", 0), u);
  }
}
void schedulefree_sgd(const Options& o, const std::vector<Tensor*>& tensors, Shared& all) {
  const Schedule now = schedule(o, all);
  for (Tensor* x : tensors) {
    Numbers u(x->size());
    for (std::size_t i = 0; i < x->size(); ++i) u[i] = x->g[i] + o.number("weight_decay") * x->p[i];
    schedule_free(*x, now, o.number("momentum"), u);
  }
}
Numbers average_point(const Tensor& y, double beta) {
  const Numbers& z = y.state.at("z");
  Numbers x = y.p;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += (1 - 1 / beta) * (z[i] - x[i]);
  return x;
}

}  // namespace

Rules shared_rules() {
  return {
      {"prodigy", {prodigy}},
      {"dadapt_adam", {dadapt_adam}},
      {"schedulefree_adamw",
       {schedulefree_adamw,
        [](const Options& o, const Tensor& y) { return average_point(y, o.number("betas", 0)); }}},
      {"schedulefree_sgd", {schedulefree_sgd, [](const Options& o, const Tensor& y) {
                              return average_point(y, o.number("momentum"));
                            }}}};
}

}  // namespace jitstep::tests::reference
