// Rules and a codec as a user would write them, for features that the shipped ones do not use.
#pragma once

#include <string>

namespace jitstep::jit::testing {

// Reductions over all domains, chained reductions, reductions over entries, and auxiliary state of several domains.
inline const std::string kEverythingText = R"(// Everything a rule may declare.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::everything {
enum class Form { plain, scaled };
struct Hyper {
  double lr = 1e-2;                // > 0
  Numbers<2> eps = {null, 1e-3};   // > 0
};
struct Flags {
  bool last = true;
  Form form = Form::scaled;
};
struct Slots {
  Signed m;       // if form == scaled
  NonNegative v;  // initial: 0.5
};
struct Scalars { real lr; };
struct Rows { real mean; };
struct Columns { real mean; };
struct Bias { real mean; };
struct Global { double norm; real scale; };
struct Matrix { real mean; };
struct Rms { real factor; };
struct Reductions {
  Sum<rows, 1, Rows> row;
  Sum<columns, 1, Columns> column;               // if last
  Sum<first, 1, Bias> bias;
  Max<all, 1, Global> global;                    // update_state
  Sum<matrices, 1, Matrix, Entries<rows, Rows>> matrix;
  Sum<tensor, 2, Rms> rms;                       // after: matrix, column; if last
};
struct AuxState {
  Entry<tensor, double> norm;  // initial: 1
  Entry<rows> row_mean;
  Entry<columns> column_mean;
};
template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64, AuxState& m) {
    m.norm.next = m.norm.prev * 2;
    return {static_cast<real>(h.lr)};
  }
  KHD static Reals<1> terms(Of<Rows>, const auto& e, const auto&) { return {e.g}; }
  KHD static Reals<1> terms(Of<Columns>, const auto& e, const auto&) { return {e.g}; }
  KHD static Reals<1> terms(Of<Bias>, const auto& e, const auto&) { return {e.g}; }
  KHD static Reals<1> terms(Of<Global>, const auto& e, const auto&) { return {abs(e.g)}; }
  KHD static Reals<1> terms(Of<Matrix>, const Rows& rows, const auto&) { return {rows.mean}; }
  KHD static Reals<2> terms(Of<Rms>, const auto& e, const auto& c) { return {e.p * c.matrix.mean, e.g}; }
  KHD static Rows finalize(Of<Rows>, const Totals<1>& sum, int64 n, const auto&, AuxState& m) {
    m.row_mean.next = static_cast<real>(sum[0] / static_cast<double>(n));
    return {m.row_mean.next};
  }
  KHD static Columns finalize(Of<Columns>, const Totals<1>& sum, int64, const auto&, AuxState& m) {
    m.column_mean.next = static_cast<real>(sum[0]);
    return {m.column_mean.next};
  }
  KHD static Bias finalize(Of<Bias>, const Totals<1>& sum, int64, const auto&) { return {static_cast<real>(sum[0])}; }
  KHD static Global finalize(Of<Global>, const Totals<1>& sum, int64, const auto&) { return {sum[0], real(1)}; }
  KHD static Matrix finalize(Of<Matrix>, const Totals<1>& sum, int64, const auto&) { return {static_cast<real>(sum[0])}; }
  KHD static Rms finalize(Of<Rms>, const Totals<2>& sum, int64, const auto&) { return {static_cast<real>(sum[1])}; }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = e.g * c.global.scale;
    e.v.next = e.v.prev;
  }
  KHD static void update_param(auto& e, const auto& c) { e.p -= c.lr * e.m.next * c.row.mean + c.rms.factor; }
};
}
)";

// One value of auxiliary state per tensor, from a reduction that `update_state` reads.
inline const std::string kRememberingText = R"(// The norm of the gradient, averaged.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::remembering {
struct Slots {
  Signed m;
};
struct Norm { real inverse; };
struct Reductions {
  Sum<tensor, 1, Norm> norm;  // update_state
};
struct AuxState {
  Entry<tensor> average;  // torch: exp_avg_sq
};
struct Rule {
  KHD static Reals<1> terms(Of<Norm>, const auto& e, const auto&) { return {e.g * e.g}; }
  KHD static Norm finalize(Of<Norm>, const Totals<1>& sum, int64, const auto&, AuxState& m) {
    m.average.next = (m.average.prev + static_cast<real>(sum[0])) / 2;
    return {1 / m.average.next};
  }
  KHD static void update_state(auto& e, const auto& c) { e.m.next = e.m.prev + e.g * c.norm.inverse; }
  KHD static void update_param(auto& e, const auto&) { e.p -= e.m.next; }
};
}
)";

inline const std::string kNormedText = R"(// State in units of its tensor's norm.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::codecs::normed {
using Code = uint16;
struct Norm { real unused; };
struct Reductions {
  Sum<tensor, 1, Norm> norm;
};
struct AuxState {
  Entry<tensor> scale;  // initial: 1
};
template <class Sign>
struct Codec {
  using Code = normed::Code;
  using Meta = NoMeta;
  static constexpr int block = 1;
  static constexpr bool random = false;
  KHD static Reals<1> terms(Of<Norm>, real x) { return {x * x}; }
  KHD static Norm finalize(Of<Norm>, const Totals<1>& sum, int64, AuxState& m) {
    m.scale.next = static_cast<real>(sqrt(sum[0]) + 1);
    return {m.scale.next};
  }
  KHD static real decode(Code code, const Meta&, const AuxState& m) { return bf16_to_float(code) * m.scale.prev; }
  KHD static Code encode(real x, const Meta&, uint32, const AuxState& m) {
    return float_to_bf16(static_cast<float>(x / m.scale.next));
  }
};
}
)";

// Descent with an anchor that must stay exact (`codec: fp32`). Both depend on the rate at construction.
inline const std::string kAnchoredText = R"(// Descent with an anchor.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::anchored {
struct Hyper {
  double lr = 0.5;             // > 0
  Nullable initial_lr = null;  // > 0; at construction: lr
};
struct Slots {
  Signed z;  // torch: anchor; codec: fp32
  Signed m;
};
struct Scalars { real lr, share; };
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) {
    return {static_cast<real>(h.lr), static_cast<real>(h.lr / h.initial_lr.value)};
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.z.next = e.z.prev - c.lr * e.g;
    e.m.next = e.g;
  }
  KHD static void update_param(auto& e, const auto& c) { e.p -= c.share * e.g; }
};
}
)";

}  // namespace jitstep::jit::testing
