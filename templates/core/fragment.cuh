// Moves one lane's fragment of a tile between memory and arrays: whole vectors where the layout
// allows, single elements otherwise. Knows bytes and strides; knows no formula.
#pragma once
#include "philox.cuh"
#include "team.cuh"

namespace jitstep {

// The indices of a tile are elements base, base + 1, ...
struct Linear {
  int64 base;
  int valid;
  bool whole;  // all indices are there, dense and aligned
  KHD int64 element(int within) const { return base + within; }
  KHD bool has(int within) const { return within < valid; }
  KHD bool vectors() const { return whole; }
};

// The indices of a leaf are positions of one entry of a domain.
struct Gather {
  const TensorRecord& tensor;
  uint32 reduced;
  int64 entry, position;
  int valid;
  KHD int64 element(int within) const {
    return element_of(tensor, reduced, entry, position + within);
  }
  KHD bool has(int within) const { return within < valid; }
  KHD bool vectors() const { return false; }
};

// V elements that one instruction may move.
template <class T, int V>
struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Pack {
  T x[V];
};
template <class T, int V>
inline constexpr bool kPacked = sizeof(T) * V <= 32;

template <int V, class T, class F>
KHD void load_row(const T* from, F&& take) {
  if constexpr (kPacked<T, V>) {
    const Pack<T, V> pack = *reinterpret_cast<const Pack<T, V>*>(from);
    UNROLL
    for (int k = 0; k < V; ++k) take(k, pack.x[k]);
  } else {
    for (int k = 0; k < V; ++k) take(k, from[k]);
  }
}

template <int V, class T, class F>
KHD void store_row(T* to, F&& value) {
  if constexpr (kPacked<T, V>) {
    Pack<T, V> pack;
    UNROLL
    for (int k = 0; k < V; ++k) pack.x[k] = value(k);
    *reinterpret_cast<Pack<T, V>*>(to) = pack;
  } else {
    for (int k = 0; k < V; ++k) to[k] = value(k);
  }
}

// ---- values in memory's own order: weights, gradients, extras ----------------------------------

template <class Shape, class Bits, class Cursor, class Offset, class F>
KHD void load_values(const Bits* from, const Cursor& at, Offset&& offset, F&& take) {
  constexpr int V = Shape::vector;
  UNROLL
  for (int row = 0; row < Shape::rows; ++row) {
    const int start = Shape::row_start(row);
    if (at.vectors()) {
      load_row<V>(from + at.element(start), [&](int k, Bits b) { take(row * V + k, b); });
    } else {
      UNROLL
      for (int k = 0; k < V; ++k) {
        Bits b{};
        if (at.has(start + k)) b = from[offset(at.element(start + k))];
        take(row * V + k, b);
      }
    }
  }
}

template <class Shape, class Bits, class Offset, class F>
KHD void store_values(Bits* to, const Linear& at, Offset&& offset, F&& value) {
  constexpr int V = Shape::vector;
  UNROLL
  for (int row = 0; row < Shape::rows; ++row) {
    const int start = Shape::row_start(row);
    if (at.vectors()) {
      store_row<V>(to + at.element(start), [&](int k) { return value(row * V + k); });
    } else {
      UNROLL
      for (int k = 0; k < V; ++k)
        if (at.has(start + k)) to[offset(at.element(start + k))] = value(row * V + k);
    }
  }
}

// ---- codes, which lie in element order ---------------------------------------------------------

template <class Code>
struct CodeStorage {
  using Register = Code;
  static constexpr int granule = 1;
  template <int V, class F>
  KHD static void load_row(const void* from, int64 e, F&& take) {
    jitstep::load_row<V>(static_cast<const Code*>(from) + e, take);
  }
  KHD static Code load_one(const void* from, int64 e) { return static_cast<const Code*>(from)[e]; }
  template <int V, class F>
  KHD static void store_row(void* to, int64 e, F&& value) {
    jitstep::store_row<V>(static_cast<Code*>(to) + e, value);
  }
  template <int V, class F>
  KHD static void store_some(void* to, int64 e, int valid, F&& value) {
    UNROLL
    for (int k = 0; k < V; ++k)
      if (k < valid) static_cast<Code*>(to)[e + k] = value(k);
  }
};

template <>
struct CodeStorage<Nibble> {
  using Register = uint8;
  static constexpr int granule = 2;
  template <int V, class F>
  KHD static void load_row(const void* from, int64 e, F&& take) {
    static_assert(V % granule == 0, "a lane owns whole bytes: vector must be even");
    jitstep::load_row<V / 2>(static_cast<const uint8*>(from) + e / 2, [&](int j, uint8 byte) {
      take(2 * j, static_cast<uint8>(byte & 15));
      take(2 * j + 1, static_cast<uint8>(byte >> 4));
    });
  }
  KHD static uint8 load_one(const void* from, int64 e) {
    return static_cast<const uint8*>(from)[e / 2] >> (4 * (e & 1)) & 15;
  }
  template <int V, class F>
  KHD static void store_row(void* to, int64 e, F&& value) {
    jitstep::store_row<V / 2>(static_cast<uint8*>(to) + e / 2, [&](int j) {
      return static_cast<uint8>(value(2 * j) | value(2 * j + 1) << 4);
    });
  }
  template <int V, class F>
  KHD static void store_some(void* to, int64 e, int valid, F&& value) {
    UNROLL
    for (int k = 0; k < V; k += 2) {
      const int high = k + 1 < valid ? value(k + 1) : 0;
      if (k < valid)
        static_cast<uint8*>(to)[(e + k) / 2] = static_cast<uint8>(value(k) | high << 4);
    }
  }
};

// 16 random bits for each element of the fragment, the same for every way of cutting the tensor.
template <class Shape>
KHD void random_fields(const RandomKey& key, int64 base, uint32* out) {
  constexpr int V = Shape::vector;
  UNROLL
  for (int row = 0; row < Shape::rows; ++row) {
    const int64 e = base + Shape::row_start(row);
    UNROLL
    for (int k = 0; k < V; k += 8) {
      const RandomWords words = philox(key, static_cast<uint64>(e + k) / 8);
      UNROLL
      for (int j = 0; j < (V < 8 ? V : 8); ++j)
        out[row * V + k + j] = words.field(V < 8 ? static_cast<int>((e + j) & 7) : j);
    }
  }
}

}  // namespace jitstep
