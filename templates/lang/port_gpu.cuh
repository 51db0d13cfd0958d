// Instructions that only GPUs have, and what stands for them on other targets.
#pragma once
#include "port.cuh"

namespace jitstep {

// Conversions of 16-bit and 8-bit floats by one instruction, if the target has them. They round to nearest, ties to
// even. A NaN becomes 0x7fff or 0x7f. In 8 bits, a number that is too large becomes the largest. ptxas makes one
// instruction of two that round to 16 bits.
#if defined(__CUDACC_RTC__) && __CUDA_ARCH__ >= 800
inline constexpr bool kHas16Bits = true, kHas8Bits = __CUDA_ARCH__ >= 890;
struct Instruction {
  KHD static uint16 to_bf16(float x) {
    uint16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
  }
  KHD static uint16 to_fp16(float x) {
    uint16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
  }
  KHD static float from_fp16(uint16 bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
  }
  // Those of 8 bits exist for pairs.
  KHD static uint8 to_e4m3(float x) {
    uint16 two;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(0.0f), "f"(x));
    return static_cast<uint8>(two);
  }
  KHD static uint8 to_e5m2(float x) {
    uint16 two;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(two) : "f"(0.0f), "f"(x));
    return static_cast<uint8>(two);
  }
  KHD static float from_e4m3(uint8 bits) {
    uint32 two;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(two) : "h"(static_cast<uint16>(bits)));
    return from_fp16(static_cast<uint16>(two));
  }
};
#else
inline constexpr bool kHas16Bits = false, kHas8Bits = false;
struct Instruction {
  KHD static uint16 to_bf16(float) { return 0; }
  KHD static uint16 to_fp16(float) { return 0; }
  KHD static float from_fp16(uint16) { return 0; }
  KHD static uint8 to_e4m3(float) { return 0; }
  KHD static uint8 to_e5m2(float) { return 0; }
  KHD static float from_e4m3(uint8) { return 0; }
};
#endif

// Quotients and square roots by instructions for approximations and by fused products. They have the same bits as / and
// sqrt if the operands are ordinary, and need no branch. See `Ordinary`.
#if defined(__CUDACC_RTC__)
inline constexpr bool kHasApproximations = true;
KHD float magnitude(float x) { return ::fabsf(x); }  // a modifier of an operand
KHD float near_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
KHD float near_inverse_root(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Subnormal numbers and -0 become 0.
KHD float without_subnormals(float x) {
  float y;
  asm("fma.rn.ftz.f32 %0, %1, 0f3f800000, 0f00000000;" : "=f"(y) : "f"(x));
  return y;
}
#else
inline constexpr bool kHasApproximations = false;
KHD float magnitude(float x) { return abs(x); }
KHD float without_subnormals(float x) { return abs(x) < 0x1p-126f ? 0.0f : x; }
KHD float near_reciprocal(float x) { return 1 / x; }
KHD float near_inverse_root(float x) { return static_cast<float>(1 / sqrt(static_cast<double>(x))); }
#endif

}  // namespace jitstep
