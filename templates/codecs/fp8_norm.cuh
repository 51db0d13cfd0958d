// LAMB16's format (github.com/vxst/LAMB16), with the same numbers: one norm per tensor, and each value divided by it,
// in E4M3 up to 15 (signed) or in E5M2 (non-negative). The norm is the root of the sum of squares, divided by the
// number of elements. So in a larger tensor more elements are cut off at 15. A non-negative value far above the
// others becomes infinity, and stays infinite. Each norm includes least_norm as a summand. The original adds its
// optimizer's eps, and so does jitstep's lamb16. Use this format only with that rule in its original form.
// int8_softsign cuts no value off. A value that is not finite is stored (E4M3: as NaN), and does not change the norm.
// lossy: values above 15 norms are cut off.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::codecs::fp8_norm {

struct Hyper {
  double least_norm = 1e-6;  // >= 0
};
using Code = uint8;
struct Norm {
  real norm;
};
struct Reductions {
  Sum<tensor, 1, Norm> norm;
};
struct AuxState {
  Entry<tensor> norm;  // initial: 1
};

template <class Sign>
struct Codec {
  using Code = fp8_norm::Code;
  using Meta = NoMeta;
  static constexpr int block = 1;
  static constexpr bool random = false;
  static constexpr bool has_assembly = kHas16Bits;
  static constexpr bool is_signed = kSame<Sign, Signed>;
  static constexpr real kLargest = 10;      // limit of a square, and of a non-negative value
  static constexpr real kMostNorms = 15;    // limit of a signed value, in norms
  static constexpr Code kNotFinite = 0x7f;  // a NaN

  KHD static real clipped(real x, real limit) { return max(min(x, limit), -limit); }

  KHD static Reals<1> terms(Of<Norm>, real x) {
    return {is_finite(x) ? min(x * x, kLargest) : real(0)};
  }
  KHD static Norm finalize(Of<Norm>, const Totals<1>& sum, int64 count, const Hyper& h,
                           AuxState& m) {
    const real of_slot = static_cast<real>(sqrt(sum[0])) / static_cast<real>(count);
    m.norm.next = of_slot + static_cast<real>(h.least_norm);
    return {m.norm.next};
  }

  KHD static real decode(Code code, const Meta&, const AuxState& m) {
    return (is_signed ? e4m3_to_float(code) : e5m2_to_float(code)) * m.norm.prev;
  }
  // Without least_norm, the norm of values that are 0, or too small to be squared, is 0. They are stored as 0.
  KHD static Code encode(real x, const Meta&, uint32, const AuxState& m) {
    const real norm = m.norm.next > 0 ? m.norm.next : static_cast<real>(kInfinity);
    if constexpr (is_signed) {
      const float y = static_cast<float>(clipped(x / norm, kMostNorms));
      return is_finite(x) ? float_to_e4m3(y) : kNotFinite;
    } else {
      return float_to_e5m2(static_cast<float>(is_finite(x) ? clipped(x, kLargest) / norm : x));
    }
  }
};

}  // namespace jitstep::codecs::fp8_norm
