// Looks up the values of a table for many codes. If the table fits registers, as floats or as four tables of bytes,
// permute instructions look up all codes before the loop that uses the values. Compilers would emit one load per
// element.
#pragma once
#include "../../codecs/support/table.cuh"
#include "../../lang/list.cuh"
#include "../../lang/port_cpu.cuh"

namespace jitstep {

// each: one load per code; bytes: four tables of bytes in registers; floats: one table in registers.
enum class LookUp { each, bytes, floats };
template <const auto& table>
inline constexpr LookUp kLookUp = kSizeOf<table> <= 2 * kFloatLanes ? LookUp::floats
                                  : kSizeOf<table> <= kByteLanes    ? LookUp::bytes
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

// Byte `which` of each value of a table, repeated to fill a register.
template <const auto& table, int which, int Width>
struct BytesOf {
  static constexpr int count = kSizeOf<table> > Width ? kSizeOf<table> : Width;
  alignas(Width) uint8 x[count] = {};
  constexpr BytesOf() {
    for (int i = 0; i < count; ++i)
      x[i] = static_cast<uint8>(bit_cast<uint32>(table.x[i % kSizeOf<table>]) >> 8 * which);
  }
};
template <const auto& table, int which, int Width>
inline constexpr BytesOf<table, which, Width> kBytesOf;

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
template <auto Indices, class From, class To>
KHD void permute(const From& a, const From& b, To& to) {
  From indices, permuted;
  copy_bytes(&indices, Indices.x, sizeof indices);
  select(a, b, indices, permuted);
  to = reinterpret_cast<To>(permuted);
}

template <const auto& table, int Count>
requires kHasVectors class LookedUp<table, Count, LookUp::bytes> {
  static constexpr int kSize = kSizeOf<table>;
  static constexpr int kWidth = kSize <= 16 ? 16 : 64;
  using Bytes = typename VectorOf<uint8, kWidth>::type;
  using Pairs = typename VectorOf<uint16, kWidth>::type;

 public:
  static constexpr int room = (Count + kWidth - 1) / kWidth * kWidth;
  KHD explicit LookedUp(const uint8* index) {
    for (int i = 0; i < room; i += kWidth) {
      Bytes at, byte[4];
      copy_bytes(&at, index + i, kWidth);
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
      select(from[0], at, found);
    else
      select(from[0], from[1], at, found);
    if constexpr (kSize > 2 * kWidth) {
      Bytes upper;
      select(from[2], from[3], at, upper);
      found = at < uint8{2 * kWidth} ? found : upper;
    }
  }
  // Writes the values of the lower or the upper half.
  template <bool Upper>
  KHD static void put(const Bytes (&byte)[4], float* to) {
    Pairs low, high, values;
    permute<interleaved<uint8, kWidth, Upper>()>(byte[0], byte[1], low);
    permute<interleaved<uint8, kWidth, Upper>()>(byte[2], byte[3], high);
    permute<interleaved<uint16, kWidth / 2, false>()>(low, high, values);
    copy_bytes(to, &values, kWidth);
    permute<interleaved<uint16, kWidth / 2, true>()>(low, high, values);
    copy_bytes(to + kWidth / 4, &values, kWidth);
  }

  alignas(kWidth) float x_[room];
};

// Width: how many values a register holds.
template <const auto& table, int Count, int Width>
class FloatsLookedUp {
  using Words = typename VectorOf<int, 4 * Width>::type;
  using Floats = typename VectorOf<float, 4 * Width>::type;

 public:
  static constexpr int room = (Count + Width - 1) / Width * Width;
  KHD explicit FloatsLookedUp(const uint8* index) {
    Floats values[2];
    copy_bytes(values, table.x, kSizeOf<table> * sizeof(float));
    for (int i = 0; i < room; i += Width) {
      Words at;
      Widened<Width>::of(index + i, at);
      Floats found;
      select(values[0], at, found);
      if constexpr (Width < kSizeOf<table>) {
        Floats upper;
        select(values[1], at, upper);
        found = at < Width ? found : upper;
      }
      copy_bytes(x_ + i, &found, sizeof found);
    }
  }
  KHD float operator[](int i) const { return x_[i]; }

 private:
  alignas(4 * Width) float x_[room];
};
template <const auto& table, int Count>
requires(kFloatLanes > 0) class LookedUp<table, Count, LookUp::floats>
    : public FloatsLookedUp<table, Count, kFloatLanes> {
 public:
  using FloatsLookedUp<table, Count, kFloatLanes>::FloatsLookedUp;
};

}  // namespace jitstep
