// The two halves of a float: a bfloat16 parameter, and the 16 bits that it lacks (Apex, DistributedFusedAdam's
// store_param_remainders). Rounding is half up in magnitude. So the lower half, as a signed number, tells whether the
// upper half was rounded up. Every value except NaN is restored exactly.   for: bfloat16
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::weights::split16 {

template <class Format_>
struct Weights {
  using Format = Format_;
  using Residual = uint16;
  static constexpr bool random = false;
  KHD static real first(typename Format::Bits bits) { return Format::load(bits); }
  // A program may have overwritten the parameter with a value that no float with this lower half rounds to. Then
  // `load` ignores the lower half.
  KHD static real load(typename Format::Bits bits, Residual low) {
    const uint32 size = bits & 0x7fffu, raised = low >> 15;
    const uint32 lower = size == (raised != 0 ? 0u : 0x7f80u) ? 0u : low;
    const uint32 high = static_cast<uint32>(bits) - (lower >> 15);
    return float_of(high << 16 | lower);
  }
  KHD static typename Format::Bits store(real x, uint32, Residual& low) {
    const uint32 u = bits_of(x);
    const bool number = (u & 0x7fffffffu) <= 0x7f800000u;
    low = static_cast<Residual>(number ? u & 0xffffu : 0u);
    return static_cast<typename Format::Bits>(number ? (u >> 16) + (low >> 15) : kNaN16);
  }
};

}  // namespace jitstep::weights::split16
