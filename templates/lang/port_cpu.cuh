// Vectors and memory of the CPU. Depends on the host compiler and on the CPU's instructions.
#pragma once
#include "port.cuh"

namespace jitstep {

inline constexpr bool kLittleEndian = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
typedef uint32 AliasingWord __attribute__((may_alias));  // may access objects of any type
KHD void copy_bytes(void* to, const void* from, uint64 count) { __builtin_memcpy(to, from, count); }

// kByteLanes, kFloatLanes: how many bytes or floats one permute instruction can select from; 0 if none can.
#if defined(__GNUC__) && !defined(__clang__)
#define JITSTEP_VECTORS
inline constexpr bool kHasVectors = true;
#else
inline constexpr bool kHasVectors = false;
#endif
#if defined(JITSTEP_VECTORS) && defined(__AVX512VBMI__)
inline constexpr int kByteLanes = 256;
#elif defined(JITSTEP_VECTORS) && defined(__SSSE3__)
inline constexpr int kByteLanes = 16;
#else
inline constexpr int kByteLanes = 0;
#endif
#if defined(JITSTEP_VECTORS) && defined(__AVX512F__)
inline constexpr int kFloatLanes = 16;
#elif defined(JITSTEP_VECTORS) && defined(__AVX2__)
inline constexpr int kFloatLanes = 8;
#else
inline constexpr int kFloatLanes = 0;
#endif

// A register of values. Functions return it by reference, because its calling convention depends on the instruction
// set.
template <class Value, int Bytes>
struct VectorOf;
// Widens Width bytes to integers. Compilers that prefer shorter registers would use several instructions.
template <int Width>
struct Widened;
#if defined(JITSTEP_VECTORS)
template <class Value, int Bytes>
struct VectorOf {
  typedef Value type __attribute__((vector_size(Bytes)));
};
template <class Values, class Indices>
KHD void select(const Values& from, const Indices& indices, Values& to) {
  to = __builtin_shuffle(from, indices);
}
template <class Values, class Indices>
KHD void select(const Values& a, const Values& b, const Indices& indices, Values& to) {
  to = __builtin_shuffle(a, b, indices);
}
#endif
#if defined(JITSTEP_VECTORS) && defined(__AVX2__)
template <>
struct Widened<8> {
  KHD static void of(const uint8* bytes, VectorOf<int, 32>::type& to) {
    typedef char Bytes __attribute__((vector_size(16)));
    typedef long long Pair __attribute__((vector_size(16)));
    long long eight;
    __builtin_memcpy(&eight, bytes, sizeof eight);
    to = __builtin_ia32_pmovzxbd256(reinterpret_cast<Bytes>(Pair{eight, 0}));
  }
};
#endif
#if defined(JITSTEP_VECTORS) && defined(__AVX512F__)
template <>
struct Widened<16> {
  KHD static void of(const uint8* bytes, VectorOf<int, 64>::type& to) {
    typedef char Bytes __attribute__((vector_size(16)));
    Bytes all;
    __builtin_memcpy(&all, bytes, sizeof all);
    to = __builtin_ia32_pmovzxbd512_mask(all, VectorOf<int, 64>::type{}, 0xffff);
  }
};
#endif

// ---- products of 32 bits, many at once -----------------------------------------------------------
// Assembly, because g++ 12 multiplies whole lanes of 64 bits, which takes three times as long.

#if defined(__AVX512F__)
inline constexpr int kProducts = 8;
#elif defined(__AVX2__)
inline constexpr int kProducts = 4;
#else
inline constexpr int kProducts = 2;
#endif
typedef uint64 Products __attribute__((vector_size(8 * kProducts)));

// to[i] = the lower half of x[i], times factor.
KHD void multiply_lower_halves(const Products& x, uint32 factor, Products& to) {
  const Products factors = Products{} + factor;
#if defined(__AVX512F__)
  asm("vpmuludq %2, %1, %0" : "=v"(to) : "v"(x), "v"(factors));
#elif defined(__AVX__)
  asm("vpmuludq %2, %1, %0" : "=x"(to) : "x"(x), "x"(factors));
#elif defined(__SSE2__)
  to = x;
  asm("pmuludq %1, %0" : "+x"(to) : "x"(factors));
#else
  to = (x & 0xffffffffu) * factors;
#endif
}

// words = a[0], b[0], a[1], b[1], ...
KHD void interleave(const Products& a, const Products& b, Products (&words)[2]) {
#if defined(JITSTEP_VECTORS)
  Products indices[2];
  for (int i = 0; i < kProducts; ++i)
    for (int half = 0; half < 2; ++half)
      indices[half][i] = static_cast<uint64>((half * kProducts + i) / 2 + i % 2 * kProducts);
  select(a, b, indices[0], words[0]);
  select(a, b, indices[1], words[1]);
#else
  for (int i = 0; i < 2 * kProducts; ++i)
    words[i / kProducts][i % kProducts] = i % 2 == 0 ? a[i / 2] : b[i / 2];
#endif
}

// ---- 16 bits, many values at once ---------------------------------------------------------------
// Assembly, because compilers disagree about the types of the intrinsics.

inline constexpr int kRoundedAtOnce = 32;

// Classes of floats that the instructions below do not round as formats.cuh does: NaN and subnormal numbers. Slots
// store +0 for -0.
inline constexpr int kSpecialWeights = 0xa1, kSpecialSlots = 0xa5;
inline constexpr int kNegative = 0x40;  // in addition, if the codec keeps positive values positive
#if defined(__AVX512DQ__)
// Returns 0 if none of 16 floats is in these classes.
template <int Classes>
KHD uint32 in_classes(const auto& values) {
  uint16 special;
  asm("vfpclassps %2, %1, %0" : "=k"(special) : "v"(values), "i"(Classes));
  return special;
}
#endif

// Rounds kRoundedAtOnce floats to bfloat16, to nearest even. Returns 0 if no value is special.
#if defined(__AVX512BF16__) && defined(__AVX512DQ__)
inline constexpr bool kRoundsToBf16 = true;
template <int Special>
KHD uint32 round_to_bf16(const float* x, uint16* to) {
  typedef float Floats __attribute__((vector_size(64)));
  Floats low, high, rounded;
  copy_bytes(&low, x, sizeof low);
  copy_bytes(&high, x + 16, sizeof high);
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(rounded) : "v"(low), "v"(high));
  copy_bytes(to, &rounded, sizeof rounded);
  return in_classes<Special>(low) | in_classes<Special>(high);
}
#else
inline constexpr bool kRoundsToBf16 = false;
template <int Special>
KHD uint32 round_to_bf16(const float*, uint16*) {
  return 1;
}
#endif

// Rounds kRoundedAtOnce floats to bfloat16, stochastically: up if a float's lower half exceeds its draw. Returns 0 if
// no value is special.
#if defined(__AVX512BW__) && defined(__AVX512DQ__)
inline constexpr bool kRoundsRandomly = true;
// The lower (0) or upper (1) halves of two registers of floats.
template <int Upper>
struct Halves {
  alignas(64) uint16 x[kRoundedAtOnce];
  constexpr Halves() : x() {
    for (int i = 0; i < kRoundedAtOnce; ++i) x[i] = static_cast<uint16>(2 * i + Upper);
  }
};
template <int Upper>
inline constexpr Halves<Upper> kHalves;
template <int Special>
KHD uint32 round_randomly(const float* x, const uint16* draws, uint16* to) {
  typedef float Floats __attribute__((vector_size(64)));
  typedef uint16 Words __attribute__((vector_size(64)));
  Floats low, high;
  Words fractions, rounded, random, at_lower, at_upper;
  uint32 up;
  copy_bytes(&low, x, sizeof low);
  copy_bytes(&high, x + 16, sizeof high);
  copy_bytes(&random, draws, sizeof random);
  copy_bytes(&at_lower, kHalves<0>.x, sizeof at_lower);
  copy_bytes(&at_upper, kHalves<1>.x, sizeof at_upper);
  copy_bytes(&fractions, &low, sizeof low);
  rounded = fractions;
  asm("vpermt2w %2, %1, %0" : "+v"(fractions) : "v"(at_lower), "v"(high));
  asm("vpermt2w %2, %1, %0" : "+v"(rounded) : "v"(at_upper), "v"(high));
  asm("vpcmpuw $6, %2, %1, %0" : "=Yk"(up) : "v"(fractions), "v"(random));
  asm("vpaddw %2, %0, %0 %{%1%}" : "+v"(rounded) : "Yk"(up), "v"(Words{} + uint16{1}));
  copy_bytes(to, &rounded, sizeof rounded);
  return in_classes<Special>(low) | in_classes<Special>(high);
}
#else
inline constexpr bool kRoundsRandomly = false;
template <int Special>
KHD uint32 round_randomly(const float*, const uint16*, uint16*) {
  return 1;
}
#endif

// Rounds kRoundedAtOnce floats to float16, to nearest even. Returns 0 if all are in the format's range. kFlushesFp16:
// or if one is in the special classes of a slot. If kNegative is one of them, a positive value is not rounded to 0.
// widen_fp16() is the inverse, but a signaling NaN becomes quiet.
#if defined(__AVX512DQ__)
inline constexpr bool kFlushesFp16 = true;
#else
inline constexpr bool kFlushesFp16 = false;
#endif
#if defined(__AVX512F__)
inline constexpr bool kConvertsFp16 = true;
// Replaces positive values below the least positive number by that number. No value is negative.
template <class Floats>
KHD void keep_positive(Floats& value) {
  const Floats least = Floats{} + 0x1p-24f;
  uint16 nonzero;
  asm("vptestmd %1, %1, %0" : "=Yk"(nonzero) : "v"(value));
  asm("vmaxps %2, %0, %0 %{%1%}" : "+v"(value) : "Yk"(nonzero), "v"(least));
}
template <int Special>
KHD uint32 round_to_fp16(const float* x, uint16* to) {
  typedef float Floats __attribute__((vector_size(64)));
  typedef int Ints __attribute__((vector_size(64)));
  typedef uint16 Halves __attribute__((vector_size(32)));
  constexpr bool kSlot = kFlushesFp16 && Special != kSpecialWeights;
  const Floats most = Floats{} + 65504.0f;
  uint32 special = 0;
  for (int i = 0; i < kRoundedAtOnce; i += 16) {
    Floats value;
    Halves rounded;
    uint16 larger;  // or a NaN
    copy_bytes(&value, x + i, sizeof value);
    const auto size = reinterpret_cast<Floats>(reinterpret_cast<Ints>(value) & 0x7fffffff);
    asm("vcmpps $6, %2, %1, %0" : "=k"(larger) : "v"(size), "v"(most));
    special |= larger;
#if defined(__AVX512DQ__)
    if constexpr (kSlot) special |= in_classes<Special>(value);
    if constexpr (kSlot && (Special & kNegative)) keep_positive(value);
#endif
    asm("vcvtps2ph $0, %1, %0" : "=v"(rounded) : "v"(value));
    copy_bytes(to + i, &rounded, sizeof rounded);
  }
  return special;
}
KHD void widen_fp16(const uint16* bits, float* to) {
  typedef float Floats __attribute__((vector_size(64)));
  typedef uint16 Halves __attribute__((vector_size(32)));
  for (int i = 0; i < kRoundedAtOnce; i += 16) {
    Halves half;
    Floats value;
    copy_bytes(&half, bits + i, sizeof half);
    asm("vcvtph2ps %1, %0" : "=v"(value) : "v"(half));
    copy_bytes(to + i, &value, sizeof value);
  }
}
#elif defined(__F16C__)
inline constexpr bool kConvertsFp16 = true;
template <int>
KHD uint32 round_to_fp16(const float* x, uint16* to) {
  typedef float Floats __attribute__((vector_size(32)));
  typedef int Ints __attribute__((vector_size(32)));
  typedef uint16 Halves __attribute__((vector_size(16)));
  const Floats most = Floats{} + 65504.0f;
  Ints special = {};
  for (int i = 0; i < kRoundedAtOnce; i += 8) {
    Floats value, larger;  // or a NaN
    Halves rounded;
    copy_bytes(&value, x + i, sizeof value);
    const auto size = reinterpret_cast<Floats>(reinterpret_cast<Ints>(value) & 0x7fffffff);
    asm("vcvtps2ph $0, %1, %0" : "=x"(rounded) : "x"(value));
    asm("vcmpps $6, %2, %1, %0" : "=x"(larger) : "x"(size), "x"(most));
    copy_bytes(to + i, &rounded, sizeof rounded);
    special |= reinterpret_cast<Ints>(larger);
  }
  uint32 lanes;
  asm("vmovmskps %1, %0" : "=r"(lanes) : "x"(special));
  return lanes;
}
KHD void widen_fp16(const uint16* bits, float* to) {
  typedef float Floats __attribute__((vector_size(32)));
  typedef uint16 Halves __attribute__((vector_size(16)));
  for (int i = 0; i < kRoundedAtOnce; i += 8) {
    Halves half;
    Floats value;
    copy_bytes(&half, bits + i, sizeof half);
    asm("vcvtph2ps %1, %0" : "=x"(value) : "x"(half));
    copy_bytes(to + i, &value, sizeof value);
  }
}
#else
inline constexpr bool kConvertsFp16 = false;
template <int>
KHD uint32 round_to_fp16(const float*, uint16*) {
  return 1;
}
KHD void widen_fp16(const uint16*, float*) {}
#endif

}  // namespace jitstep
