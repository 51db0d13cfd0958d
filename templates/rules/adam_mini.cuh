// Adam-mini (arXiv 2406.16793): AdamW with one second moment per block of a parameter, the average of the mean of the
// block's squared gradients. `partition` selects the blocks: an index of dimension 0 (`output`: the paper's choice for
// the matrices of a transformer, and for embeddings by token), the whole parameter (`whole`: for other layers), or every
// element (`element`: AdamW).   class: AdamMini
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::rules::adam_mini {

enum class Partition { output, whole, element };

struct Hyper {
  double lr = 1e-3;                 // >= 0
  Numbers<2> betas = {0.9, 0.999};  // in [0, 1)
  double eps = 1e-8;                // >= 0
  double weight_decay = 0.1;        // >= 0
};
struct Flags {
  Partition partition = Partition::output;
};
struct Slots {
  Signed m;       // torch: m
  NonNegative v;  // torch: v; if partition == element
};
struct AuxState {
  Entry<first> v_output;  // if partition == output
  Entry<tensor> v_whole;  // torch: v_mean; if partition == whole
};
struct Scalars {
  real beta1, fresh1, beta2, fresh2, eps, step_size, root_correction, shrink;
  double keep, root, floor, rate;
};
struct Output {
  real step;
};
struct Whole {
  real step;
};
struct Reductions {
  Sum<first, 1, Output> output;  // if partition == output
  Sum<tensor, 1, Whole> whole;   // if partition == whole
};

template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64 t) {
    Scalars s;
    s.beta1 = static_cast<real>(h.betas[0]);
    s.fresh1 = static_cast<real>(1 - h.betas[0]);
    s.beta2 = static_cast<real>(h.betas[1]);
    s.fresh2 = static_cast<real>(1 - h.betas[1]);
    s.eps = static_cast<real>(h.eps);
    s.keep = h.betas[1];
    s.root = sqrt(1 - power(h.betas[1], t));
    s.floor = h.eps;
    s.rate = h.lr / (1 - power(h.betas[0], t));
    s.step_size = static_cast<real>(s.rate);
    s.root_correction = static_cast<real>(s.root);
    s.shrink = static_cast<real>(1 - h.lr * h.weight_decay);
    return s;
  }
  KHD static real averaged(const Totals<1>& sum, int64 count, const auto& c, real prev) {
    return static_cast<real>(c.keep * prev + (1 - c.keep) * (sum[0] / static_cast<double>(count)));
  }
  // The factor of m in an update.
  KHD static real step_of(real v, const auto& c) {
    return static_cast<real>(c.rate / (sqrt(static_cast<double>(v)) / c.root + c.floor));
  }
  KHD static Reals<1> terms(Of<Output>, const auto& e, const auto&) { return {e.g * e.g}; }
  KHD static Output finalize(Of<Output>, const Totals<1>& sum, int64 count, const auto& c,
                             AuxState& m) {
    m.v_output.next = averaged(sum, count, c, m.v_output.prev);
    return {step_of(m.v_output.next, c)};
  }
  KHD static Reals<1> terms(Of<Whole>, const auto& e, const auto&) { return {e.g * e.g}; }
  KHD static Whole finalize(Of<Whole>, const Totals<1>& sum, int64 count, const auto& c,
                            AuxState& m) {
    m.v_whole.next = averaged(sum, count, c, m.v_whole.prev);
    return {step_of(m.v_whole.next, c)};
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = fma(c.beta1, e.m.prev, c.fresh1 * e.g);
    if constexpr (F.partition == Partition::element)
      e.v.next = fma(c.beta2, e.v.prev, c.fresh2 * (e.g * e.g));
  }
  KHD static real update(const auto& e, const auto& c) {
    if constexpr (F.partition == Partition::output)
      return c.output.step * e.m.next;
    else if constexpr (F.partition == Partition::whole)
      return c.whole.step * e.m.next;
    else
      return c.step_size * (e.m.next / (sqrt(e.v.next) / c.root_correction + c.eps));
  }
  KHD static void update_param(auto& e, const auto& c) { e.p = e.p * c.shrink - update(e, c); }
};

}  // namespace jitstep::rules::adam_mini
