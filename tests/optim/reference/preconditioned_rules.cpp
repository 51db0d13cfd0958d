// Rules that precondition a gradient by a matrix per dimension: Shampoo and SOAP.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "optim/reference/reference.h"

namespace jitstep::tests::reference {
namespace {

// A square matrix, by rows.
struct Square {
  std::size_t n;
  Numbers values;

  explicit Square(std::size_t size) : n(size), values(size * size) {}
  Square(std::size_t size, Numbers stored) : n(size), values(std::move(stored)) {}
  double& at(std::size_t i, std::size_t k) { return values[i * n + k]; }
  double at(std::size_t i, std::size_t k) const { return values[i * n + k]; }
};

// Calls f(i, k, element, distance): element + k * distance has index k in the dimension, for row i of the others.
template <class F>
void along(const Tensor& x, std::size_t dim, F&& f) {
  std::size_t distance = 1;
  for (std::size_t d = dim + 1; d < x.shape.size(); ++d)
    distance *= static_cast<std::size_t>(x.shape[d]);
  const auto size = static_cast<std::size_t>(x.shape[dim]);
  for (std::size_t first = 0; first < x.size(); ++first)
    if (first / distance % size == 0) f(first, distance, size);
}

// The sum of the outer products of all lines along a dimension.
Square gram(const Tensor& x, const Numbers& values, std::size_t dim) {
  Square sum(static_cast<std::size_t>(x.shape[dim]));
  along(x, dim, [&](std::size_t first, std::size_t distance, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
      for (std::size_t k = 0; k < size; ++k)
        sum.at(i, k) += values[first + i * distance] * values[first + k * distance];
  });
  return sum;
}

// Multiplies each line along a dimension by the matrix, or by its transpose.
Numbers multiplied(const Tensor& x, const Numbers& values, const Square& a, bool transposed,
                   std::size_t dim) {
  Numbers made(values.size());
  along(x, dim, [&](std::size_t first, std::size_t distance, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
      for (std::size_t k = 0; k < size; ++k)
        made[first + i * distance] +=
            (transposed ? a.at(k, i) : a.at(i, k)) * values[first + k * distance];
  });
  return made;
}

struct Eigen {
  Numbers values;
  Square vectors;  // columns
};

// Jacobi's method for a symmetric matrix.
Eigen eigen(Square a) {
  Square v(a.n);
  for (std::size_t i = 0; i < a.n; ++i) v.at(i, i) = 1;
  for (int sweep = 0; sweep < 60; ++sweep)
    for (std::size_t p = 0; p < a.n; ++p)
      for (std::size_t q = p + 1; q < a.n; ++q) {
        if (a.at(p, q) == 0) continue;
        const double angle = 0.5 * std::atan2(2 * a.at(p, q), a.at(q, q) - a.at(p, p));
        const double c = std::cos(angle), s = std::sin(angle);
        const auto turn = [&](double& x, double& y) {
          const double before = x;
          x = c * before - s * y;
          y = s * before + c * y;
        };
        for (std::size_t k = 0; k < a.n; ++k) turn(a.at(k, p), a.at(k, q));
        for (std::size_t k = 0; k < a.n; ++k) turn(a.at(p, k), a.at(q, k));
        for (std::size_t k = 0; k < a.n; ++k) turn(v.at(k, p), v.at(k, q));
      }
  Numbers values(a.n);
  for (std::size_t i = 0; i < a.n; ++i) values[i] = a.at(i, i);
  return {values, v};
}

// The columns in another order.
Square reordered(const Square& a, const std::vector<std::size_t>& order) {
  Square made(a.n);
  for (std::size_t i = 0; i < a.n; ++i)
    for (std::size_t k = 0; k < a.n; ++k) made.at(i, k) = a.at(i, order[k]);
  return made;
}

std::vector<std::size_t> descending(const Numbers& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  return order;
}

// Q of the QR decomposition, by Gram and Schmidt. Each column is made orthogonal twice.
Square orthonormal(Square a) {
  for (std::size_t k = 0; k < a.n; ++k) {
    for (int round = 0; round < 2; ++round)
      for (std::size_t j = 0; j < k; ++j) {
        double dot = 0;
        for (std::size_t i = 0; i < a.n; ++i) dot += a.at(i, j) * a.at(i, k);
        for (std::size_t i = 0; i < a.n; ++i) a.at(i, k) -= dot * a.at(i, j);
      }
    double length = 0;
    for (std::size_t i = 0; i < a.n; ++i) length += square(a.at(i, k));
    for (std::size_t i = 0; i < a.n; ++i) a.at(i, k) /= std::sqrt(length);
  }
  return a;
}

bool preconditions(const Options& o, const Tensor& x, std::size_t dim) {
  return static_cast<double>(x.shape[dim]) <= o.number("max_precondition_dim");
}

Square inverse_root(const Square& a, double order) {
  const Eigen of = eigen(a);
  Square root(a.n);
  for (std::size_t i = 0; i < a.n; ++i)
    for (std::size_t k = 0; k < a.n; ++k)
      for (std::size_t j = 0; j < a.n; ++j)
        root.at(i, k) +=
            of.vectors.at(i, j) * std::pow(of.values[j], -1 / order) * of.vectors.at(k, j);
  return root;
}

// arXiv 1802.09568, Algorithm 2, with the momentum and the decay of pytorch_optimizer's Shampoo
void shampoo(const Options& o, Tensor& x) {
  const double lr = o.number("lr"), decay = o.number("weight_decay"),
               keep = x.t == 1 ? 0 : o.number("momentum");
  Numbers& m = x.slot("m");
  Numbers g(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    g[i] = keep * m[i] + (1 - keep) * x.g[i];
    if (!o.on("weight_decouple")) g[i] += decay * x.p[i];
  }
  Numbers u = g;
  for (std::size_t dim = 0; dim < x.shape.size(); ++dim) {
    if (!preconditions(o, x, dim)) continue;
    const auto n = static_cast<std::size_t>(x.shape[dim]);
    const std::string number = std::to_string(dim);
    Numbers& held = x.stored("statistics " + number, n * n);
    const Square added = gram(x, g, dim);
    for (std::size_t k = 0; k < n * n; ++k)
      held[k] += added.values[k] + (x.t == 1 && k % (n + 1) == 0 ? o.number("matrix_eps") : 0);
    Numbers& root = x.stored("inverse root " + number, n * n);
    if (x.t == 1 || std::fmod(x.t, o.number("precondition_frequency")) == 0)
      root = inverse_root({n, held}, 2 * static_cast<double>(x.shape.size())).values;
    u = multiplied(x, u, {n, root}, false, dim);
  }
  m = u;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (o.on("weight_decouple")) x.p[i] *= 1 - (o.on("fixed_decay") ? decay : lr * decay);
    x.p[i] -= lr * u[i];
  }
}

// The state of SOAP along one dimension.
struct Basis {
  Numbers &statistics, &vectors;
  std::size_t n, dim;

  Square matrix() const { return {n, vectors}; }
};

// The original also orders the second moment by the eigenvalues.
void refresh(const Tensor& x, const Basis& basis, Numbers& second) {
  Square product(basis.n);
  const Square a{basis.n, basis.statistics}, q = basis.matrix();
  Numbers estimates(basis.n);
  for (std::size_t i = 0; i < basis.n; ++i)
    for (std::size_t k = 0; k < basis.n; ++k) {
      for (std::size_t j = 0; j < basis.n; ++j) product.at(i, k) += a.at(i, j) * q.at(j, k);
      estimates[k] += q.at(i, k) * product.at(i, k);
    }
  const std::vector<std::size_t> order = descending(estimates);
  const Numbers before = second;
  along(x, basis.dim, [&](std::size_t first, std::size_t distance, std::size_t size) {
    for (std::size_t k = 0; k < size; ++k)
      second[first + k * distance] = before[first + order[k] * distance];
  });
  basis.vectors = orthonormal(reordered(product, order)).values;
}

// arXiv 2409.11321, Algorithm 3, in the order of the authors' code
void soap(const Options& o, Tensor& x) {
  const double lr = o.number("lr"), beta1 = o.number("betas", 0), beta2 = o.number("betas", 1);
  const double beta = o.has("shampoo_beta") ? o.number("shampoo_beta") : beta2;
  Numbers &m = x.slot("m"), &second = x.slot("second moment");
  std::vector<Basis> bases;
  for (std::size_t dim = 0; dim < x.shape.size(); ++dim) {
    const auto n = static_cast<std::size_t>(x.shape[dim]);
    if (!preconditions(o, x, dim) || (x.shape.size() == 1 && !o.on("precondition_1d"))) continue;
    bases.push_back({x.stored("statistics " + std::to_string(dim), n * n),
                     x.stored("basis " + std::to_string(dim), n * n), n, dim});
  }
  const auto project = [&](Numbers values, bool back) {
    for (const Basis& basis : bases)
      values = multiplied(x, values, basis.matrix(), !back, basis.dim);
    return values;
  };
  const int taken = x.t - 1;
  if (taken > 0) {
    const Numbers projected = project(x.g, false);
    for (std::size_t i = 0; i < x.size(); ++i) {
      average(m[i], beta1, x.g[i]);
      average(second[i], beta2, square(projected[i]));
    }
    Numbers u = project(m, false);
    for (std::size_t i = 0; i < x.size(); ++i) u[i] /= std::sqrt(second[i]) + o.number("eps");
    u = project(u, true);
    const double size = o.on("normalize_gradient") ? rms(u) + o.number("eps") : 1;
    const double rate = o.on("correct_bias") ? lr * std::sqrt(1 - std::pow(beta2, taken)) /
                                                   (1 - std::pow(beta1, taken))
                                             : lr;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x.p[i] -= rate * u[i] / size;
      x.p[i] -= lr * o.number("weight_decay") * x.p[i];
    }
  }
  for (const Basis& basis : bases) {
    const Square added = gram(x, x.g, basis.dim);
    for (std::size_t k = 0; k < basis.statistics.size(); ++k)
      average(basis.statistics[k], beta, added.values[k]);
    if (taken == 0) {
      const Eigen of = eigen({basis.n, basis.statistics});
      basis.vectors = reordered(of.vectors, descending(of.values)).values;
    } else if (std::fmod(taken, o.number("precondition_frequency")) == 0) {
      refresh(x, basis, second);
    }
  }
}

}  // namespace

Rules preconditioned_rules() { return {{"shampoo", each(shampoo)}, {"soap", each(soap)}}; }

}  // namespace jitstep::tests::reference
