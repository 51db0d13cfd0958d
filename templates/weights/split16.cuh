// The two halves of a float: a bfloat16 parameter and, beside it, the sixteen bits that it lacks (Apex,
// DistributedFusedAdam's store_param_remainders). Rounded half up in magnitude, so that the lower half as a
// signed number says whether the upper one was raised; every value but NaN comes back bit for bit.   for: bfloat16
#pragma once
#include "../core/contract.cuh"

namespace jitstep::weights::split16 {

template <class Format_>
struct Weights {
  using Format = Format_;
  using Extra = uint16;
  static constexpr bool random = false;
  KHD static real first(typename Format::Bits bits) { return Format::load(bits); }
  // A parameter that was set from outside may be one that no float with this lower half is stored as: then it counts
  // alone.
  KHD static real load(typename Format::Bits bits, Extra low) {
    const uint32 size = bits & 0x7fffu, raised = low >> 15;
    const uint32 lower = size == (raised != 0 ? 0u : 0x7f80u) ? 0u : low;
    const uint32 high = static_cast<uint32>(bits) - (lower >> 15);
    return float_of(high << 16 | lower);
  }
  KHD static typename Format::Bits store(real x, uint32, Extra& low) {
    const uint32 u = bits_of(x);
    const bool number = (u & 0x7fffffffu) <= 0x7f800000u;
    low = static_cast<Extra>(number ? u & 0xffffu : 0u);
    return static_cast<typename Format::Bits>(number ? (u >> 16) + (low >> 15) : 0x7fc0u);
  }
};

}  // namespace jitstep::weights::split16
