// Storage formats of weights, gradients and state, converted on bits: the same bits on every target.
// A stored NaN below 32 bits is canonical.
#pragma once
#include "port.cuh"

namespace jitstep {

// ---- bfloat16 (1-8-7) --------------------------------------------------------------------------

KHD float bf16_to_float(uint16 b) { return float_of(static_cast<uint32>(b) << 16); }

KHD uint16 float_to_bf16(float x) {  // to nearest, ties to even
  const uint32 u = bits_of(x);
  const uint32 rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return static_cast<uint16>((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

// Away from zero with the probability that makes the mean exact; random: 16 uniform bits.
// Infinities and NaN, which carry no fraction to round, stay what they are.
KHD uint16 float_to_bf16_stochastic(float x, uint32 random) {
  const uint32 u = bits_of(x);
  const uint32 up = random < (u & 0xffffu) ? 1u : 0u;
  const uint32 finite = (u >> 16) + up;
  const uint32 special = (u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : u >> 16;
  return static_cast<uint16>((u & 0x7f800000u) == 0x7f800000u ? special : finite);
}

// ---- float16 (1-5-10) --------------------------------------------------------------------------

KHD float fp16_to_float(uint16 h) {
  const uint32 magnitude = h & 0x7fffu;
  const uint32 sign = static_cast<uint32>(h & 0x8000u) << 16;
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  const uint32 exponent = magnitude >= 0x7c00u ? 0x70000000u : 0x38000000u;
  const float normal = float_of((magnitude << 13) + exponent);
  return float_of(bits_of(magnitude < 0x400u ? subnormal : normal) | sign);
}

KHD uint16 float_to_fp16(float x) {  // to nearest, ties to even
  const uint32 u = bits_of(x);
  const uint32 magnitude = u & 0x7fffffffu;
  const uint32 sign = (u >> 16) & 0x8000u;
  const uint32 normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Adding 0.5 puts the unit of a subnormal half into the last bit of the sum.
  const uint32 subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
  const uint32 finite = magnitude < 0x38800000u ? subnormal : min(normal, 0x7c00u);
  return static_cast<uint16>(magnitude > 0x7f800000u ? 0x7e00u : sign | finite);
}

// ---- slots -------------------------------------------------------------------------------------

// What is kept of a slot's new value, whatever its codec: one below the smallest normal number becomes
// +0. A moment whose gradient stays zero would else end at a few units of the smallest subnormal one,
// never to leave it, and processors compute with those many times slower.
KHD float flush_subnormal(float x) { return abs(x) < 0x1p-126f ? 0.0f : x; }
KHD double flush_subnormal(double x) { return abs(x) < 0x1p-1022 ? 0.0 : x; }

// ---- the dtypes of weights and gradients -------------------------------------------------------

struct Float64 {
  using Bits = double;
  KHD static double load(Bits b) { return b; }
  KHD static Bits store(double x) { return x; }
};
struct Float32 {
  using Bits = float;
  KHD static float load(Bits b) { return b; }
  KHD static Bits store(float x) { return x; }
};
struct BFloat16 {
  using Bits = uint16;
  KHD static float load(Bits b) { return bf16_to_float(b); }
  KHD static Bits store(float x) { return float_to_bf16(x); }
};
struct Float16 {
  using Bits = uint16;
  KHD static float load(Bits b) { return fp16_to_float(b); }
  KHD static Bits store(float x) { return float_to_fp16(x); }
};

}  // namespace jitstep
