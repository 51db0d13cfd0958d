// Rules with factored second moments of matrices, the last two dimensions of a tensor.
#include <algorithm>
#include <cmath>
#include <limits>

#include "optim/reference/reference.h"

namespace jitstep::tests::reference {
namespace {

// The matrices of a tensor of two or more dimensions, and the position of an element.
struct Matrices {
  std::size_t rows, columns, count;

  explicit Matrices(const Tensor& x)
      : rows(static_cast<std::size_t>(x.shape[x.shape.size() - 2])),
        columns(static_cast<std::size_t>(x.shape.back())),
        count(x.size() / rows / columns) {}

  std::size_t matrix(std::size_t i) const { return i / columns / rows; }
  std::size_t row(std::size_t i) const { return i / columns; }  // counted over all matrices
  std::size_t column(std::size_t i) const { return matrix(i) * columns + i % columns; }
  double n_rows() const { return static_cast<double>(rows); }
  double n_columns() const { return static_cast<double>(columns); }
};

// Exponential moving averages of the row and column means of some values.
struct Factors {
  Matrices at;
  Numbers &row, &column;

  Factors(Tensor& x, const char* rows, const char* columns)
      : at(x),
        row(x.stored(rows, at.count * at.rows)),
        column(x.stored(columns, at.count * at.columns)) {}

  void add(const Numbers& values, double beta) {
    Numbers by_row(row.size()), by_column(column.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      by_row[at.row(i)] += values[i] / at.n_columns();
      by_column[at.column(i)] += values[i] / at.n_rows();
    }
    for (std::size_t k = 0; k < row.size(); ++k) average(row[k], beta, by_row[k]);
    for (std::size_t k = 0; k < column.size(); ++k) average(column[k], beta, by_column[k]);
  }
  // The mean of the rows of an element's matrix.
  double mean(std::size_t i) const {
    const std::size_t first = at.matrix(i) * at.rows;
    double sum = 0;
    for (std::size_t k = first; k < first + at.rows; ++k) sum += row[k];
    return sum / at.n_rows();
  }
};

Numbers squares(const Numbers& g, double more = 0) {
  Numbers all;
  for (const double x : g) all.push_back(x * x + more);
  return all;
}

// torch.optim.Adafactor
void adafactor(const Options& o, Tensor& x) {
  const double lr = o.number("lr"), beta = 1 - std::pow(x.t, o.number("beta2_decay"));
  const double eps1 =
      o.json("eps").at(0).is_null() ? std::numeric_limits<double>::epsilon() : o.number("eps", 0);
  const double alpha = std::max(o.number("eps", 1), rms(x.p)) * std::min(lr, 1 / std::sqrt(x.t));
  Numbers second(x.size());
  if (x.shape.size() > 1) {
    Factors means(x, "row", "col");
    means.add(squares(x.g), beta);
    for (std::size_t i = 0; i < x.size(); ++i)
      second[i] = means.row[means.at.row(i)] * means.column[means.at.column(i)] /
                  std::max(means.mean(i), eps1);
  } else {
    Numbers& v = x.slot("v");
    for (std::size_t i = 0; i < x.size(); ++i) average(v[i], beta, square(x.g[i]));
    second = v;
  }
  Numbers u(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    u[i] = x.g[i] / std::sqrt(std::max(second[i], eps1 * eps1));
  const double size = alpha / std::max(1.0, rms(u) / o.number("d"));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x.p[i] *= 1 - lr * o.number("weight_decay");
    x.p[i] -= size * u[i];
  }
}

// pytorch_optimizer's CAME, arXiv 2307.02047
Numbers scaled(const Factors& means, const Numbers& values) {
  Numbers result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    result[i] = values[i] / std::sqrt(means.row[means.at.row(i)] / means.mean(i)) /
                std::sqrt(means.column[means.at.column(i)]);
  return result;
}
Numbers came_update(const Options& o, Tensor& x, const Numbers& g) {
  const double b2 = o.number("betas", 1);
  const Numbers q = squares(g, o.number("eps1"));
  Numbers u = g;
  if (x.shape.size() > 1) {
    Factors means(x, "row", "column");
    means.add(q, b2);
    u = scaled(means, g);
  } else {
    Numbers& v = x.slot("v");
    for (std::size_t i = 0; i < x.size(); ++i) {
      average(v[i], b2, q[i]);
      u[i] = g[i] / std::sqrt(v[i]);
    }
  }
  const double clip = std::max(1.0, rms(u) / o.number("clip_threshold"));
  for (double& value : u) value /= clip;
  return u;
}
void came(const Options& o, Tensor& x) {
  const double lr = o.number("lr"), wd = o.number("weight_decay");
  Numbers g = x.g;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (o.on("weight_decouple"))
      x.p[i] *= 1 - wd * (o.on("fixed_decay") ? 1 : lr);
    else
      g[i] += wd * x.p[i];
  const Numbers u = came_update(o, x, g);
  Numbers& m = x.slot("m");
  Numbers distance(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    average(m[i], o.number("betas", 0), u[i]);
    distance[i] = square(u[i] - m[i]) + o.number("eps2");
  }
  Numbers step = m;
  if (x.shape.size() > 1) {
    Factors confidence(x, "res_row", "res_column");
    confidence.add(distance, o.number("betas", 2));
    step = scaled(confidence, m);
  }
  for (std::size_t i = 0; i < x.size(); ++i) x.p[i] -= lr * step[i];
}

}  // namespace

Rules factored_rules() { return {{"adafactor", each(adafactor)}, {"came", each(came)}}; }

}  // namespace jitstep::tests::reference
