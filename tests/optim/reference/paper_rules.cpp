// Rules with sizes, random numbers, inputs or accumulators per dimension, and further relatives of Adam.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "optim/reference/reference.h"

namespace jitstep::tests::reference {
namespace {

constexpr double kPi = 3.14159265358979323846;

// ---- random numbers ----

using Words = std::array<std::uint32_t, 4>;

// Philox4x32-7 (Salmon et al., SC 2011) with key 0, the default seed.
Words philox(Words c) {
  std::uint32_t k0 = 0, k1 = 0;
  for (int round = 0; round < 7; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * c[0],
                        b = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

// The normal number of words 0 and 1 of an element: Box and Muller with 23 and 24 bits.
double normal(const Tensor& x, std::size_t element) {
  constexpr std::uint32_t kStream = 64;
  const Words words =
      philox({static_cast<std::uint32_t>(element), static_cast<std::uint32_t>(x.number),
              static_cast<std::uint32_t>(x.t), kStream << 24});
  const double u = (2.0 * (words[0] >> 9) + 1) / 16777216, angle = (words[1] >> 8) / 8388608.0 - 1;
  return std::sqrt(-2 * std::log(u)) * std::cos(kPi * angle);
}

// Welling and Teh, ICML 2011, equation 4. Preconditioned: arXiv 1512.07666, Algorithm 1, without Gamma.
void sgld(const Options& o, Tensor& x) {
  const double lr = o.number("lr"), temperature = o.number("temperature");
  Numbers& v = x.slot("v");
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double g = x.g[i] + o.number("weight_decay") * x.p[i];
    average(v[i], o.number("alpha"), g * g);
    const double scale = o.on("preconditioned") ? 1 / (std::sqrt(v[i]) + o.number("eps")) : 1;
    x.p[i] -= lr * scale * g + std::sqrt(2 * lr * temperature * scale) * normal(x, i);
  }
}

// ---- norms and sizes ----

// pytorch_optimizer's Amos, arXiv 2210.11693
void amos(const Options& o, Tensor& x) {
  const double lr = o.number("lr"), beta = o.number("beta");
  double scale = 0.5;
  if (x.shape.size() == 2) scale = std::sqrt(2.0 / static_cast<double>(x.shape[1]));
  if (x.shape.size() > 2) scale = std::sqrt(1.0 / static_cast<double>(x.shape[1]));
  const double start = lr * scale, square_mean = square(rms(x.g));
  double &v = x.scalar("v"), &decay = x.scalar("decay");
  average(v, beta, square_mean);
  const double inverse = (1 - std::pow(beta, x.t)) / (v + o.number("eps"));
  const double c = 1 / std::sqrt(1 + o.number("c_coef") * std::sqrt(lr) * decay);
  const double d = 1 / (1 + o.number("d_coef") * std::sqrt(start) * decay);
  const double gamma = c * lr * lr * inverse * square_mean;
  Numbers& m = x.slot("m");
  for (std::size_t i = 0; i < x.size(); ++i) {
    double u = x.p[i] * (gamma - o.number("extra_l2")) / 2;
    u = (u + start * std::sqrt(inverse) * x.g[i]) * d;
    average(m[i], o.number("momentum"), u);
    x.p[i] -= o.number("momentum") == 0 ? u : m[i];
  }
  decay = decay * (1 + gamma) + gamma;
}

// pytorch_optimizer's Fromage, arXiv 2002.03432
void fromage(const Options& o, Tensor& x) {
  const double lr = o.number("lr"), weights = norm(x.p), gradient = norm(x.g);
  const double ratio = weights > 0 && gradient > 0 ? weights / gradient : 1;
  if (x.t == 1 && o.has("p_bound")) x.scalar("most") = o.number("p_bound") * weights;
  for (std::size_t i = 0; i < x.size(); ++i)
    x.p[i] = (x.p[i] - lr * ratio * x.g[i]) / std::sqrt(1 + lr * lr);
  if (!o.has("p_bound")) return;
  const double now = norm(x.p), most = x.scalar("most");
  for (double& p : x.p) p *= now > most ? most / now : 1;
}

// The index of dimension d of an element.
std::size_t index_in(const Tensor& x, std::size_t element, std::size_t d) {
  for (std::size_t k = x.shape.size(); --k > d;) element /= static_cast<std::size_t>(x.shape[k]);
  return element % static_cast<std::size_t>(x.shape[d]);
}

// pytorch_optimizer's SM3, arXiv 1901.11150, SM3-II
void sm3(const Options& o, Tensor& x) {
  const double beta = o.number("beta"), momentum = o.number("momentum");
  std::vector<Numbers*> accumulators;
  for (std::size_t d = 0; d < x.shape.size(); ++d)
    accumulators.push_back(
        &x.stored("acc" + std::to_string(d), static_cast<std::size_t>(x.shape[d])));
  Numbers second(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    second[i] = HUGE_VAL;
    for (std::size_t d = 0; d < x.shape.size(); ++d)
      second[i] = std::min(second[i], (*accumulators[d])[index_in(x, i, d)]);
    second[i] = (beta > 0 ? beta : 1) * second[i] + (1 - beta) * square(x.g[i]);
  }
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    Numbers most(accumulators[d]->size());
    if (beta > 0) most = *accumulators[d];
    for (std::size_t i = 0; i < x.size(); ++i) {
      double& entry = most[index_in(x, i, d)];
      entry = std::max(entry, second[i]);
    }
    *accumulators[d] = most;
  }
  Numbers& m = x.slot("m");
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double u = x.g[i] / std::sqrt(second[i] + o.number("eps"));
    average(m[i], momentum, u);
    x.p[i] -= o.number("lr") * (momentum > 0 ? m[i] : u);
  }
}

// ---- inputs ----

// Sophia, arXiv 2305.14342, Algorithm 3
void sophia(const Options& o, Tensor& x) {
  Numbers &m = x.slot("m"), &h = x.slot("h");
  const auto hessian = x.inputs.find("hessian");
  for (std::size_t i = 0; i < x.size(); ++i) {
    average(m[i], o.number("betas", 0), x.g[i]);
    if (hessian != x.inputs.end()) average(h[i], o.number("betas", 1), hessian->second[i]);
    x.p[i] -= o.number("lr") * o.number("weight_decay") * x.p[i];
    const double ratio = m[i] / std::max(o.number("rho") * h[i], o.number("eps"));
    x.p[i] -= o.number("lr") * std::clamp(ratio, -1.0, 1.0);
  }
}

// pytorch_optimizer's AdaHessian, arXiv 2006.00719
void adahessian(const Options& o, Tensor& x) {
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1), lr = o.number("lr");
  Numbers &m = x.slot("m"), &h = x.slot("h");
  const auto hessian = x.inputs.find("hessian");
  for (std::size_t i = 0; i < x.size(); ++i) {
    x.p[i] *= 1 - o.number("weight_decay") * (o.on("fixed_decay") ? 1 : lr);
    average(m[i], b1, x.g[i]);
    if (hessian != x.inputs.end()) average(h[i], b2, square(hessian->second[i]));
    const double second = h[i] / (1 - std::pow(b2, x.t));
    x.p[i] -= lr / (1 - std::pow(b1, x.t)) * m[i] /
              (std::pow(second, o.number("hessian_power") / 2) + o.number("eps"));
  }
}

// ---- relatives of Adam ----

// pytorch_optimizer's StableAdamW, arXiv 2304.13013
void stable_adamw(const Options& o, Tensor& x) {
  const auto debiased = [&](double beta) {
    return beta * (1 - std::pow(beta, x.t - 1)) / (1 - std::pow(beta, x.t));
  };
  const double eps = o.number("eps"), wd = o.number("weight_decay");
  Numbers &m = x.slot("m"), &v = x.slot("v");
  Numbers relative(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double g = x.g[i] + (o.on("weight_decouple") ? 0 : wd * x.p[i]);
    average(m[i], debiased(o.number("betas", 0)), g);
    average(v[i], debiased(o.number("betas", 1)), g * g);
    relative[i] = std::abs(g) / std::sqrt(std::max(v[i], eps * eps));
  }
  const double lr = o.number("lr") / std::max(1.0, rms(relative));
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (o.on("weight_decouple")) x.p[i] *= 1 - lr * wd;
    x.p[i] -= lr * m[i] / (std::sqrt(v[i]) + eps);
  }
}

// pytorch_optimizer's Grams, arXiv 2412.17107
void grams(const Options& o, Tensor& x) {
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1), lr = o.number("lr");
  Numbers &m = x.slot("m"), &v = x.slot("v");
  for (std::size_t i = 0; i < x.size(); ++i) {
    average(m[i], b1, x.g[i]);
    average(v[i], b2, square(x.g[i]));
    const double root = std::sqrt(v[i] / (1 - std::pow(b2, x.t))) + o.number("eps");
    const double u = std::abs(m[i]) / (1 - std::pow(b1, x.t)) / root;
    x.p[i] -= lr * o.number("weight_decay") * x.p[i];
    x.p[i] -= lr * (x.g[i] > 0 ? u : x.g[i] < 0 ? -u : 0);
  }
}

// Adam-mini, arXiv 2406.16793, Algorithm 1, for a given partition.
void adam_mini(const Options& o, Tensor& x) {
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1), lr = o.number("lr");
  const bool elements = o.is("partition", "element"), whole = o.is("partition", "whole");
  const auto outputs = static_cast<std::size_t>(x.shape.size() > 1 ? x.shape[0] : 1);
  const std::size_t blocks = elements ? x.size() : whole ? 1 : outputs;
  const std::size_t length = x.size() / blocks;
  Numbers& v = x.stored(elements ? "v" : whole ? "v_whole" : "v_output", blocks);
  Numbers& m = x.slot("m");
  for (std::size_t b = 0; b < blocks; ++b) {
    double mean = 0;
    for (std::size_t i = b * length; i < (b + 1) * length; ++i)
      mean += square(x.g[i]) / static_cast<double>(length);
    average(v[b], b2, mean);
    const double root = std::sqrt(v[b] / (1 - std::pow(b2, x.t))) + o.number("eps");
    for (std::size_t i = b * length; i < (b + 1) * length; ++i) {
      average(m[i], b1, x.g[i]);
      x.p[i] *= 1 - lr * o.number("weight_decay");
      x.p[i] -= lr / (1 - std::pow(b1, x.t)) * m[i] / root;
    }
  }
}

// The cosine between gradient and weights of some elements, and the part of u along the weights.
struct View {
  std::size_t first, last;

  double sum(const Numbers& a, const Numbers& b) const {
    double sum = 0;
    for (std::size_t i = first; i < last; ++i) sum += a[i] * b[i];
    return sum;
  }
  double cosine(const Tensor& x, double eps) const {
    return std::abs(sum(x.g, x.p)) / std::max(std::sqrt(sum(x.g, x.g)), eps) /
           std::max(std::sqrt(sum(x.p, x.p)), eps);
  }
  void project(const Tensor& x, double eps, Numbers& u) const {
    const double size = std::sqrt(sum(x.p, x.p)) + eps, radial = sum(x.p, u) / size;
    for (std::size_t i = first; i < last; ++i) u[i] -= x.p[i] / size * radial;
  }
};

// AdamP, arXiv 2006.08217, as pytorch_optimizer. True if u was projected.
bool project(const Options& o, const Tensor& x, Numbers& u) {
  if (x.shape.size() < 2) return false;
  const auto channels = static_cast<std::size_t>(x.shape[0]);
  for (const std::size_t count : {channels, std::size_t{1}}) {
    const std::size_t length = x.size() / count;
    std::vector<View> views;
    double most = 0;
    for (std::size_t k = 0; k < count; ++k) {
      views.push_back({k * length, (k + 1) * length});
      most = std::max(most, views.back().cosine(x, o.number("eps")));
    }
    if (!(most < o.number("delta") / std::sqrt(static_cast<double>(length)))) continue;
    for (const View& view : views) view.project(x, o.number("eps"), u);
    return true;
  }
  return false;
}
void adamp(const Options& o, Tensor& x) {
  const double b1 = o.number("betas", 0), b2 = o.number("betas", 1), lr = o.number("lr");
  Numbers &m = x.slot("m"), &v = x.slot("v");
  Numbers u(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    average(m[i], b1, x.g[i]);
    average(v[i], b2, square(x.g[i]));
    const double ahead = o.on("nesterov") ? b1 * m[i] + (1 - b1) * x.g[i] : m[i];
    u[i] = ahead / (std::sqrt(v[i]) + o.number("eps")) * std::sqrt(1 - std::pow(b2, x.t));
  }
  double decay = o.number("weight_decay") * (o.on("fixed_decay") ? 1 : lr);
  if (project(o, x, u)) decay *= o.number("wd_ratio");
  for (std::size_t i = 0; i < x.size(); ++i)
    x.p[i] = x.p[i] * (1 - decay) - lr / (1 - std::pow(b1, x.t)) * u[i];
}

}  // namespace

Rules paper_rules() {
  return {{"sgld", each(sgld)},
          {"amos", each(amos)},
          {"fromage", each(fromage)},
          {"sm3", each(sm3)},
          {"sophia", each(sophia)},
          {"adahessian", each(adahessian)},
          {"stable_adamw", each(stable_adamw)},
          {"grams", each(grams)},
          {"adam_mini", each(adam_mini)},
          {"adamp", each(adamp)}};
}

}  // namespace jitstep::tests::reference
