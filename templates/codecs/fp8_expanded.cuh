// COAT's 8-bit state (arXiv 2410.19313): E4M3 of a power of each magnitude. Each block has its own exponent, which
// expands its range to the format's. Magnitudes below 2^-126 of the largest are stored as zero. COAT also stores the
// center of the range, which cancels, and gives NaN for a block of equal magnitudes. Here the exponent is at most 64
// instead. A value that is not finite is stored as NaN. stochastic selects stochastic rounding.
#pragma once
#include "../lang/elementary.cuh"
#include "support/codebook.cuh"

namespace jitstep::codecs::fp8_expanded {

struct Options {
  int block = 128;          // power of two in [32, 1024]
  bool stochastic = false;
};
using Code = uint8;
struct Meta {
  float scale;  // largest magnitude
  float power;  // exponent of magnitudes divided by the scale
};
// What `encode` needs in addition to the stored metadata.
struct Measured : Meta {
  float inverse;
};

// y^power for y in [0, 1].
KHD float power_of_unit(float y, float power) {
  return chosen(y >= 0x1p-126f, exp2_of_element(power * log2_of_element(y)), 0.0f);
}

// ---- tables for loops, with the bits of the functions below ----------------------------------------

// log2_of_element of the magnitudes 8 to 15 divided by 448, less the nearest whole number.
inline constexpr float kFractions[8] = {0x1.8a898cp-3f,
                                        0x1.73459ap-2f,
                                        -0x1.f113bap-2f,
                                        -0x1.6445fcp-2f,
                                        -0x1.c7759cp-3f,
                                        -0x1.b5ecaap-4f,
                                        0,
                                        0x1.97b2d4p-4f};
inline constexpr float kAboveLogarithms = 0x1p40f;

// By code: the negative logarithm of the magnitude divided by 448, with the code's sign. A larger number for 0.
constexpr Table<256> logarithms() {
  Table<256> table{};
  for (int code = 0; code < 256; ++code) {
    const int magnitude = code & 0x7f, sign = code < 128 ? 1 : -1;
    int eighths = magnitude < 8 ? magnitude : magnitude % 8 + 8;
    int exponent = magnitude < 8 ? -9 : magnitude / 8 - 10;
    for (; eighths > 0 && eighths < 8; eighths *= 2) --exponent;
    const int whole = exponent - (eighths < 10 ? 6 : 5);  // 448 is 7/8 of 2^9
    const float log = static_cast<float>(whole) + kFractions[eighths % 8];
    const float size = magnitude == 0 ? kAboveLogarithms : -log;
    const uint32 bits = magnitude == 0x7f ? 0x7fc00000u : bit_cast<uint32>(size) & 0x7fffffffu;
    table.x[code] = bit_cast<float>(bits | (sign < 0 ? 0x80000000u : 0u));
  }
  return table;
}

// By code: the least logarithm of a magnitude divided by the scale, after the power, that gets this code.
constexpr Table<128> thresholds() {
  constexpr float kLow[9] = {-static_cast<float>(kInfinity),
                             -0x1.2ceaecp+4f,
                             -0x1.138eeap+4f,
                             -0x1.07c44ep+4f,
                             -0x1p+4f,
                             -0x1.f465d2p+3f,
                             -0x1.eb223p+3f,
                             -0x1.e36bd8p+3f,
                             -0x1.dcd09ap+3f};
  constexpr float kRest[8] = {0x1.2cbb3p-3f,   0x1.1ed4a2p-2f,  0x1.c3256ep-2f, -0x1.a8ff9p-2f,
                              -0x1.229aa8p-2f, -0x1.4ed866p-3f, -0x1.add03p-5f, 0x1.9ebab2p-5f};
  Table<128> table{};
  for (int code = 0; code < 127; ++code) {
    const int whole = code / 8 - (code % 8 < 3 ? 16 : 15);
    table.x[code] =
        code < 9 ? kLow[code] : float_not_below(static_cast<double>(whole) + kRest[code % 8]);
  }
  table.x[127] = static_cast<float>(kInfinity);
  return table;
}

template <class Sign, Options O>
struct Codec {
  using Code = fp8_expanded::Code;
  using Meta = fp8_expanded::Meta;
  static constexpr int block = O.block;
  static constexpr int keys = 2;
  static constexpr bool random = O.stochastic;
  static constexpr bool has_assembly = kHas8Bits;
  static constexpr float kLargest = 448;
  static constexpr float kRange = 0x1.09d5dap+4f;  // log2(448 * 448 / 2)
  static constexpr float kMostPower = 64, kSteps = 16;
  static constexpr int kNotFinite = 0x7f, kLargestCode = 0x7e;

  // Key 0: the largest magnitude. Key 1: the smallest nonzero one, as infinity's bits minus its bits.
  KHD static uint32 key(real x, int n) {
    const uint32 magnitude = magnitude_key(static_cast<float>(x));
    return n == 0 || magnitude == 0 ? magnitude : 0x7f800000u - magnitude;
  }
  KHD static Measured measure(const uint32 (&key)[2]) {
    const float most = float_of(key[0]), inverse = inverse_of({most});
    const float ratio = float_of(0x7f800000u - key[1]) * inverse;  // smallest to largest, at most 1
    const float wanted = kRange / max(-log2_of_element(max(ratio, 0x1p-126f)), kRange / kMostPower);
    return {{most, static_cast<float>(static_cast<int>(wanted * kSteps)) / kSteps}, inverse};
  }
  // Divided by the scale.
  KHD static float magnitude_of(uint32 code, float power) {
    return power_of_unit(e4m3_to_float(static_cast<uint8>(code)) * (1 / kLargest), 1 / power);
  }
  KHD static real decode(Code code, const Meta& meta) {
    const uint32 magnitude = code & 0x7fu, sign = static_cast<uint32>(code & 0x80u) << 24;
    const uint32 nan = magnitude == kNotFinite ? 0x7fc00000u : 0;
    return scaled(float_of(bits_of(magnitude_of(magnitude, meta.power)) | sign | nan),
                  {meta.scale});
  }
  // What `decode` returns, from the element of `logarithms`. A product with 0 is NaN for NaN.
  static constexpr Table<256> logarithms = fp8_expanded::logarithms();
  KHD static real value_of(float logarithm, const Meta& meta) {
    const float size = abs(logarithm);
    const float power = exp2_of_element(-(1 / meta.power * size));
    const float magnitude = fma(size, 0.0f, chosen(size < kAboveLogarithms, power, 0.0f));
    const uint32 sign = bits_of(logarithm) & 0x80000000u;
    return scaled(float_of(bits_of(magnitude) | sign), {meta.scale});
  }

  KHD static int code_of(float y, float power, uint32 random_bits) {
    const int nearest = float_to_e4m3(kLargest * power_of_unit(y, power));
    if constexpr (O.stochastic)
      return stochastic_code(y, nearest, y > 0 ? 1 : 0, kLargestCode, random_bits, [&](int code) {
        return magnitude_of(static_cast<uint32>(code), power);
      });
    else
      return nearest;
  }
  // The logarithm of a magnitude divided by the scale, after the power. A large negative number for 0.
  KHD static float logarithm_of(real x, const Measured& measured) {
    const float size = unit_clamped(abs(static_cast<float>(x)) * measured.inverse);
    return chosen(size >= 0x1p-126f, measured.power * log2_of_element(size), -kAboveLogarithms);
  }
  // The code of a magnitude or the next one, from lines that are between it and the next one. The first line has the
  // normal numbers of E4M3, and each other one has half a power of two of the subnormal ones.
  static constexpr Table<128> thresholds = fp8_expanded::thresholds();
  KHD static int candidate(float logarithm) {
    const float octave =
        max(logarithm + 0x1.d9d5dap+3f, -6.0f);  // above E4M3's least normal number
    const float subnormal = max(fma(octave, 4.0f, 8.65f), fma(octave, 2.0f, 6.65f));
    const float small = max(octave + 4.65f, fma(octave, 0.5f, 3.15f));
    return static_cast<int>(max(fma(octave, 8.0f, 8.65f), max(subnormal, small)));
  }
  // What `encode` returns, from the logarithm, its candidate, and the candidate's threshold.
  KHD static Code code_of(real value, float logarithm, int candidate, float threshold) {
    const float x = static_cast<float>(value);
    const int magnitude = candidate - (logarithm >= threshold ? 0 : 1);
    const int sign = static_cast<int>(bits_of(x) >> 24 & 0x80u);
    return static_cast<Code>(is_finite(x) ? magnitude | sign : kNotFinite);
  }

  KHD static Code encode(real value, const Measured& measured, uint32 random_bits) {
    const float x = static_cast<float>(value);
    const float size = unit_clamped(abs(x) * measured.inverse);
    const int sign = static_cast<int>(bits_of(x) >> 24 & 0x80u);
    const int code = code_of(size, measured.power, random_bits) | sign;
    return static_cast<Code>(is_finite(x) ? code : kNotFinite);
  }
};

}  // namespace jitstep::codecs::fp8_expanded
