// AdamP (arXiv 2006.08217): AdamW that removes the part of an update along the weights, where gradient and weights are
// almost orthogonal, as pytorch_optimizer. The test and the projection are per index of dimension 0 if all of these are
// orthogonal, otherwise of the whole parameter. A projected parameter decays by wd_ratio times weight_decay. Vectors are
// never projected. The denominator is (sqrt(v) + eps) / sqrt(1 - betas[1]^t): torch's Adam adds eps after the correction.
// nesterov replaces m by betas[0] * m + (1 - betas[0]) * gradient, as the authors' code.   class: AdamP
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::adamp {

struct Hyper {
  double lr = 1e-3;                 // >= 0
  Numbers<2> betas = {0.9, 0.999};  // in [0, 1)
  double eps = 1e-8;                // >= 0
  double weight_decay = 0;          // >= 0
  double delta = 0.1;     // >= 0; largest cosine of a projected update, times the root of its size
  double wd_ratio = 0.1;  // >= 0
};
struct Flags {
  bool nesterov = false;
  bool fixed_decay = false;  // decay without lr
  bool matrix = false;       // lifted: dims > 1
};
struct Slots {
  Signed m;       // torch: exp_avg
  NonNegative v;  // torch: exp_avg_sq
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, eps, step_size, root_correction;
  double floor, channel_limit, layer_limit, decay, wd_ratio;
};
struct Channel {
  real cosine, radial;
};  // radial: the factor of the weights in the projection
struct Layer {
  real cosine, radial;
};
struct Projection {
  bool channel, layer;  // at most one of them
  real shrink;
};
struct Reductions {
  Sum<first, 4, Channel> channel;                                  // if matrix
  Sum<tensor, 4, Layer> layer;                                     // if matrix
  Max<tensor, 1, Projection, Entries<first, Channel>> projection;  // if matrix; after: layer
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t, const Sizes& size) {
    const double elements = static_cast<double>(size.numel());
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.step_size = static_cast<real>(h.lr / (1 - power(h.betas[0], t)));
    s.root_correction = static_cast<real>(sqrt(1 - power(h.betas[1], t)));
    s.floor = h.eps;
    s.channel_limit = h.delta / sqrt(elements / static_cast<double>(size(0)));
    s.layer_limit = h.delta / sqrt(elements);
    s.decay = (F.fixed_decay ? 1.0 : h.lr) * h.weight_decay;
    s.wd_ratio = h.wd_ratio;
    return s;
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * e.g);
    e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (e.g * e.g));
  }
  KHD static real direction(const auto& e, const auto& c) {
    const real m = F.nesterov ? fma(c.beta1, e.m.next, c.fresh1 * e.g) : e.m.next;
    return m * (c.root_correction / (sqrt(e.v.next) + c.eps));
  }

  KHD static Reals<4> products(const auto& e, const auto& c) {
    return {e.p * e.p, e.g * e.g, e.p * e.g, e.p * direction(e, c)};
  }
  KHD static real cosine(const Totals<4>& sum, const auto& c) {
    const double sizes = max(sqrt(sum[0]), c.floor) * max(sqrt(sum[1]), c.floor);
    return static_cast<real>(abs(sum[2]) / sizes);
  }
  KHD static real radial(const Totals<4>& sum, const auto& c) {
    const double norm = sqrt(sum[0]) + c.floor;
    return static_cast<real>(sum[3] / (norm * norm));
  }
  KHD static Reals<4> terms(Of<Channel>, const auto& e, const auto& c) { return products(e, c); }
  KHD static Channel finalize(Of<Channel>, const Totals<4>& sum, int64, const auto& c) {
    return {cosine(sum, c), radial(sum, c)};
  }
  KHD static Reals<4> terms(Of<Layer>, const auto& e, const auto& c) { return products(e, c); }
  KHD static Layer finalize(Of<Layer>, const Totals<4>& sum, int64, const auto& c) {
    return {cosine(sum, c), radial(sum, c)};
  }
  KHD static Reals<1> terms(Of<Projection>, const Channel& channel, const auto&) {
    return {channel.cosine};
  }
  KHD static Projection finalize(Of<Projection>, const Totals<1>& most, int64, const auto& c) {
    const bool channel = most[0] < c.channel_limit;
    const bool layer = !channel && c.layer.cosine < c.layer_limit;
    const double ratio = channel || layer ? c.wd_ratio : 1.0;
    return {channel, layer, static_cast<real>(1 - c.decay * ratio)};
  }

  // Selected, not multiplied by 0: a radial part that is not used may be NaN.
  KHD static real applied_radial(const auto& c) {
    const real layer = chosen(c.projection.layer, c.layer.radial, real(0));
    return chosen(c.projection.channel, c.channel.radial, layer);
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real u = direction(e, c);
    if constexpr (F.matrix) {
      e.p = e.p * c.projection.shrink - c.step_size * (u - applied_radial(c) * e.p);
    } else {
      e.p = e.p * static_cast<real>(1 - c.decay) - c.step_size * u;
    }
  }
};

}  // namespace jitstep::rules::adamp
