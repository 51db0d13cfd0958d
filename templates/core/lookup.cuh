// Looks up the values of a table for many codes. If the table fits registers, as floats or as four tables of bytes,
// permute instructions look up all codes before the loop that uses the values. Compilers would emit one load per
// element.
#pragma once
#include "list.cuh"

namespace jitstep {

template <int N>
struct Table {
  float x[N];
};

template <const auto& table>
inline constexpr int kSizeOf = sizeof table.x / sizeof(float);

// How many floats one permute instruction can select from.
#if defined(JITSTEP_BYTE_VECTORS) && defined(__AVX512F__)
inline constexpr int kFloatLanes = 16;
#elif defined(JITSTEP_BYTE_VECTORS) && defined(__AVX2__)
inline constexpr int kFloatLanes = 8;
#else
inline constexpr int kFloatLanes = 0;
#endif

// each: one load per code; bytes: four tables of bytes in registers; floats: one table in registers.
enum class LookUp { each, bytes, floats };
template <const auto& table>
inline constexpr LookUp kLookUp = kSizeOf<table> <= 2 * kFloatLanes ? LookUp::floats
                                  : kSizeOf<table> <= kPermuted     ? LookUp::bytes
                                                                    : LookUp::each;

// table.x[index[i]] for i below Count. The caller provides `room` readable indices.
template <const auto& table, int Count, LookUp How = kLookUp<table>>
class LookedUp {
 public:
  static constexpr int room = Count;
  KHD explicit LookedUp(const uint8* index) : index_(index) {}
  KHD float operator[](int i) const { return table.x[index_[i]]; }

 private:
  const uint8* index_;
};

#if defined(JITSTEP_BYTE_VECTORS)
// Byte `which` of each value of a table, repeated to fill a register.
template <const auto& table, int which, int Width>
struct BytesOf {
  static constexpr int count = kSizeOf<table> > Width ? kSizeOf<table> : Width;
  alignas(Width) uint8 x[count] = {};
  constexpr BytesOf() {
    for (int i = 0; i < count; ++i)
      x[i] =
          static_cast<uint8>(__builtin_bit_cast(uint32, table.x[i % kSizeOf<table>]) >> 8 * which);
  }
};
template <const auto& table, int which, int Width>
inline constexpr BytesOf<table, which, Width> kBytesOf;

template <int Width>
struct Register;
template <>
struct Register<16> {
  typedef uint8 Bytes __attribute__((vector_size(16)));
  typedef uint16 Pairs __attribute__((vector_size(16)));
};
template <>
struct Register<64> {
  typedef uint8 Bytes __attribute__((vector_size(64)));
  typedef uint16 Pairs __attribute__((vector_size(64)));
};

// Indices of N values in one or two registers. A constant, so that compilers select one instruction.
template <class Value, int N>
struct Positions {
  alignas(N * sizeof(Value)) Value x[N] = {};
};
// Indices that interleave two registers, in the lower or the upper half of each 16 bytes.
template <class Value, int N, bool Upper>
constexpr Positions<Value, N> interleaved() {
  constexpr int kLane = 16 / sizeof(Value);
  Positions<Value, N> indices;
  for (int i = 0; i < N; ++i) {
    const int lane = i / kLane * kLane, index = i % kLane;
    indices.x[i] =
        static_cast<Value>(lane + (Upper ? kLane / 2 : 0) + index / 2 + (index % 2 == 0 ? 0 : N));
  }
  return indices;
}
// The order of bytes that two interleavings of four registers restore to the original order.
template <int N>
constexpr Positions<uint8, N> before_interleaving() {
  Positions<uint8, N> indices;
  for (int i = 0; i < N; ++i) {
    const int lane = i / 16, quarter = i % 16 / 4;
    indices.x[i] = static_cast<uint8>(quarter * (N / 4) + lane * 4 + i % 4);
  }
  return indices;
}
// Returns by reference, because the calling convention of such vectors depends on the instruction set.
template <auto Table, class From, class To>
KHD void permute(const From& a, const From& b, To& to) {
  From indices;
  __builtin_memcpy(&indices, Table.x, sizeof indices);
  to = reinterpret_cast<To>(__builtin_shuffle(a, b, indices));
}

template <const auto& table, int Count>
class LookedUp<table, Count, LookUp::bytes> {
  static constexpr int kSize = kSizeOf<table>;
  static constexpr int kWidth = kSize <= 16 ? 16 : 64;
  using Bytes = typename Register<kWidth>::Bytes;
  using Pairs = typename Register<kWidth>::Pairs;

 public:
  static constexpr int room = (Count + kWidth - 1) / kWidth * kWidth;
  KHD explicit LookedUp(const uint8* index) {
    for (int i = 0; i < room; i += kWidth) {
      Bytes at, byte[4];
      __builtin_memcpy(&at, index + i, kWidth);
      permute<before_interleaving<kWidth>()>(at, at, at);
      static_for<4>([&](auto which) { look_up<decltype(which)::value>(at, byte[which.value]); });
      put<false>(byte, x_ + i);
      put<true>(byte, x_ + i + kWidth / 2);
    }
  }
  KHD float operator[](int i) const { return x_[i]; }

 private:
  // Looks up byte `which` of each value.
  template <int which>
  KHD static void look_up(const Bytes& at, Bytes& found) {
    const auto* from = reinterpret_cast<const Bytes*>(kBytesOf<table, which, kWidth>.x);
    if constexpr (kSize <= kWidth)
      found = __builtin_shuffle(from[0], at);
    else
      found = __builtin_shuffle(from[0], from[1], at);
    if constexpr (kSize > 2 * kWidth)
      found = at < uint8{2 * kWidth} ? found : __builtin_shuffle(from[2], from[3], at);
  }
  // Writes the values of the lower or the upper half.
  template <bool Upper>
  KHD static void put(const Bytes (&byte)[4], float* to) {
    Pairs low, high, values;
    permute<interleaved<uint8, kWidth, Upper>()>(byte[0], byte[1], low);
    permute<interleaved<uint8, kWidth, Upper>()>(byte[2], byte[3], high);
    permute<interleaved<uint16, kWidth / 2, false>()>(low, high, values);
    __builtin_memcpy(to, &values, kWidth);
    permute<interleaved<uint16, kWidth / 2, true>()>(low, high, values);
    __builtin_memcpy(to + kWidth / 4, &values, kWidth);
  }

  alignas(kWidth) float x_[room];
};
#endif

#if defined(JITSTEP_BYTE_VECTORS) && defined(__AVX2__)
// Widens sixteen or eight bytes to integers. Compilers that prefer shorter registers would use several instructions.
template <int Width>
struct Widened;
template <>
struct Widened<8> {
  typedef int Words __attribute__((vector_size(32)));
  KHD static Words of(const uint8* bytes) {
    typedef char Bytes __attribute__((vector_size(16)));
    typedef long long Pair __attribute__((vector_size(16)));
    long long eight;
    __builtin_memcpy(&eight, bytes, sizeof eight);
    return __builtin_ia32_pmovzxbd256(reinterpret_cast<Bytes>(Pair{eight, 0}));
  }
};
#if defined(__AVX512F__)
template <>
struct Widened<16> {
  typedef int Words __attribute__((vector_size(64)));
  KHD static Words of(const uint8* bytes) {
    typedef char Bytes __attribute__((vector_size(16)));
    Bytes all;
    __builtin_memcpy(&all, bytes, sizeof all);
    return __builtin_ia32_pmovzxbd512_mask(all, Words{}, 0xffff);
  }
};
#endif

template <const auto& table, int Count>
class LookedUp<table, Count, LookUp::floats> {
  static constexpr int kWidth = kFloatLanes;
  using Words = typename Widened<kWidth>::Words;
  typedef float Floats __attribute__((vector_size(4 * kWidth)));

 public:
  static constexpr int room = (Count + kWidth - 1) / kWidth * kWidth;
  KHD explicit LookedUp(const uint8* index) {
    Floats values[2];
    __builtin_memcpy(values, table.x, kSizeOf<table> * sizeof(float));
    for (int i = 0; i < room; i += kWidth) {
      const Words at = Widened<kWidth>::of(index + i);
      Floats found;
      if constexpr (kSizeOf<table> <= kWidth)
        found = __builtin_shuffle(values[0], at);
      else
        found = at < kWidth ? __builtin_shuffle(values[0], at) : __builtin_shuffle(values[1], at);
      __builtin_memcpy(x_ + i, &found, sizeof found);
    }
  }
  KHD float operator[](int i) const { return x_[i]; }

 private:
  alignas(4 * kWidth) float x_[room];
};
#endif

}  // namespace jitstep
