// Rules that orthogonalize matrices: Muon and its relatives.
#include <algorithm>
#include <cmath>

#include "optim/reference/reference.h"

namespace jitstep::tests::reference {
namespace {

// The rows of a matrix.
struct Matrix {
  std::size_t rows, columns;
  Numbers values;

  double& at(std::size_t i, std::size_t k) { return values[i * columns + k]; }
  double at(std::size_t i, std::size_t k) const { return values[i * columns + k]; }
};

Matrix transposed(const Matrix& a) {
  Matrix b{a.columns, a.rows, Numbers(a.values.size())};
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t k = 0; k < a.columns; ++k) b.at(k, i) = a.at(i, k);
  return b;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c{a.rows, b.columns, Numbers(a.rows * b.columns)};
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < a.columns; ++j)
      for (std::size_t k = 0; k < b.columns; ++k) c.at(i, k) += a.at(i, j) * b.at(j, k);
  return c;
}

// Rounds to the nearest bfloat16, ties to even.
double bf16(double x) {
  if (x == 0) return x;
  const double unit = std::ldexp(1.0, std::ilogb(x) - 7);
  return std::nearbyint(x / unit) * unit;
}
void round(const Options& o, Matrix& a) {
  if (o.is("ns_dtype", "bf16"))
    for (double& x : a.values) x = bf16(x);
}

Matrix sum(double a, const Matrix& x, double b, const Matrix& y) {
  Matrix z = x;
  for (std::size_t k = 0; k < z.values.size(); ++k) z.values[k] = a * x.values[k] + b * y.values[k];
  return z;
}

// torch.optim.Muon's Newton-Schulz iteration, for a matrix that is not taller than wide.
Matrix orthogonal(const Options& o, Matrix x, double least_norm) {
  const auto c = [&](int i) { return o.number("ns_coefficients", i); };
  round(o, x);
  Matrix size{1, 1, {std::max(norm(x.values), least_norm)}};
  round(o, size);
  for (double& value : x.values) value /= size.values[0];
  round(o, x);
  for (int k = 0; k < o.number("ns_steps"); ++k) {
    Matrix gram = product(x, transposed(x));
    round(o, gram);
    Matrix polynomial = sum(c(1), gram, c(2), product(gram, gram));
    round(o, polynomial);
    x = sum(c(0), x, 1, product(polynomial, x));
    round(o, x);
  }
  return x;
}

// The orthogonalized matrix of these values. `least_norm`: the option for the least norm that they are divided by.
Matrix orthogonal_of(const Options& o, const Tensor& x, const Numbers& values,
                     const char* least_norm = "ns_eps") {
  const Matrix given{static_cast<std::size_t>(x.shape[0]), static_cast<std::size_t>(x.shape[1]),
                     values};
  const bool tall = given.rows > given.columns;
  const Matrix wide = orthogonal(o, tall ? transposed(given) : given, o.number(least_norm));
  return tall ? transposed(wide) : wide;
}

// The momentum m and, for Nesterov's, the gradient's second part.
Numbers momentum_of(const Options& o, Tensor& x, double beta) {
  Numbers &m = x.slot("m"), u(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    average(m[i], beta, x.g[i]);
    u[i] = o.on("nesterov") ? (1 - beta) * x.g[i] + beta * m[i] : m[i];
  }
  return u;
}

// Muon's factor for the sizes of a matrix.
double original_factor(const Matrix& u) {
  return std::sqrt(std::max(1.0, static_cast<double>(u.rows) / static_cast<double>(u.columns)));
}

void descend(const Options& o, Tensor& x, double rate, const Numbers& u) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    x.p[i] *= 1 - o.number("lr") * o.number("weight_decay");
    x.p[i] -= rate * u[i];
  }
}

void muon(const Options& o, Tensor& x) {
  const Matrix u = orthogonal_of(o, x, momentum_of(o, x, o.number("momentum")), "eps");
  const double size = o.is("adjust_lr_fn", "original")
                          ? original_factor(u)
                          : 0.2 * std::sqrt(static_cast<double>(std::max(u.rows, u.columns)));
  descend(o, x, o.number("lr") * size, u.values);
}

// arXiv 2510.05491, Algorithm 1, and the authors' code
void normuon(const Options& o, Tensor& x) {
  Matrix u = orthogonal_of(o, x, momentum_of(o, x, o.number("momentum")));
  const double before = norm(u.values), eps = o.number("eps");
  Numbers& v = x.stored("v", u.rows);
  for (std::size_t i = 0; i < u.rows; ++i) {
    double mean = 0;
    for (std::size_t k = 0; k < u.columns; ++k)
      mean += square(u.at(i, k)) / static_cast<double>(u.columns);
    average(v[i], o.number("beta2"), mean);
    for (std::size_t k = 0; k < u.columns; ++k) u.at(i, k) /= std::sqrt(v[i]) + eps;
  }
  const double elements = static_cast<double>(x.size());
  const double size =
      o.is("update_scale", "match_rms") ? 0.2 * std::sqrt(elements) : original_factor(u) * before;
  descend(o, x, o.number("lr") * size / (norm(u.values) + eps), u.values);
}

// arXiv 2507.11005, Algorithm 1. Without signs and with bias correction: pytorch_optimizer's AdaMuon.
void adamuon(const Options& o, Tensor& x) {
  const double beta2 = o.number("betas", 1), eps = o.number("eps");
  Numbers momentum = momentum_of(o, x, o.number("betas", 0));
  if (o.on("sign"))
    for (double& value : momentum) value = value > 0 ? 1 : value < 0 ? -1 : 0;
  Numbers u = orthogonal_of(o, x, momentum).values, &v = x.slot("v");
  const double correction = o.on("bias_correction") ? 1 - std::pow(beta2, x.t) : 1;
  for (std::size_t i = 0; i < x.size(); ++i) {
    average(v[i], beta2, square(u[i]));
    u[i] /= std::sqrt(v[i] / correction) + eps;
  }
  const double size = 0.2 * std::sqrt(static_cast<double>(x.size())) / (norm(u) + eps);
  descend(o, x, o.number("lr") * size, u);
}

}  // namespace

Rules orthogonal_rules() {
  return {{"muon", each(muon)}, {"normuon", each(normuon)}, {"adamuon", each(adamuon)}};
}

}  // namespace jitstep::tests::reference
