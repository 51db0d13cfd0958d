// Moves one lane's fragment of a tile between memory and arrays. It moves vectors if the layout allows, otherwise
// single elements. Independent of formulas.
#pragma once
#include "../../lang/philox.cuh"
#include "../locations.cuh"
#include "../team.cuh"

namespace jitstep {

// The location of a tile: elements base to base + valid - 1.
struct TilePosition {
  int64 base;
  uint32 valid;
  // All elements exist, dense and aligned: in all tiles of teams in lockstep, or in none.
  bool whole;
};

// A tile of elements base, base + 1, ... In a Whole tile all exist, dense and aligned.
template <bool Whole>
struct Linear {
  static constexpr bool whole = Whole;
  int64 base;
  uint32 valid;
  KHD int64 element(uint32 within) const { return base + within; }
  KHD bool has(uint32 within) const { return Whole || within < valid; }
};

// Calls f with the tile's cursor, in one of two branches. All lanes of a warp take the same branch, so f may use
// shuffles.
template <class F>
KHD void with_cursor(const TilePosition& at, F&& f) {
  if (at.whole)
    f(Linear<true>{at.base, at.valid});
  else
    f(Linear<false>{at.base, at.valid});
}

// A leaf's indices are positions in one entry of a domain.
struct Gather {
  static constexpr bool whole = false;
  const TensorRecord& tensor;
  uint32 reduced;
  int64 entry, position;
  uint32 valid;
  KHD int64 element(uint32 within) const {
    return element_of(tensor, reduced, entry, position + within);
  }
  KHD bool has(uint32 within) const { return within < valid; }
};

// ---- rows of whole tiles -----------------------------------------------------------------------

// V elements that one instruction can move.
template <class T, int V>
struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Pack {
  T x[V];
};
template <class T, int V>
inline constexpr bool kPacked = sizeof(T) * V <= 32;

// Loads the rows of a tile that begins at from[first], V elements per lane and row. Calls take(index in the fragment,
// value). It issues all loads before the first use. It addresses packs, because compilers do not combine element
// addresses into vectors.
template <class Shape, int V, class T, class F>
KHD void load_rows(const T* from, int64 first, F&& take) {
  if constexpr (kPacked<T, V>) {
    const auto* packs = reinterpret_cast<const Pack<T, V>*>(Shape::in_memory(from)) +
                        static_cast<uint64>(first) / V;
    Pack<T, V> row[Shape::rows];
    UNROLL
    for (int r = 0; r < Shape::rows; ++r) row[r] = packs[Shape::vector_of(r)];
    UNROLL
    for (int r = 0; r < Shape::rows; ++r) {
      UNROLL
      for (int k = 0; k < V; ++k) take(r * V + k, row[r].x[k]);
    }
  } else {
    for (int r = 0; r < Shape::rows; ++r)
      for (int k = 0; k < V; ++k) take(r * V + k, from[first + Shape::vector_of(r) * V + k]);
  }
}

template <class Shape, int V, class T, class F>
KHD void store_rows(T* to, int64 first, F&& value) {
  if constexpr (kPacked<T, V>) {
    auto* packs =
        reinterpret_cast<Pack<T, V>*>(Shape::in_memory(to)) + static_cast<uint64>(first) / V;
    UNROLL
    for (int r = 0; r < Shape::rows; ++r) {
      Pack<T, V> row;
      UNROLL
      for (int k = 0; k < V; ++k) row.x[k] = value(r * V + k);
      packs[Shape::vector_of(r)] = row;
    }
  } else {
    for (int r = 0; r < Shape::rows; ++r)
      for (int k = 0; k < V; ++k) to[first + Shape::vector_of(r) * V + k] = value(r * V + k);
  }
}

// ---- values in memory order: weights, gradients, residuals -------------------------------------

template <class Shape, class Bits, class Cursor, class Offset, class F>
KHD void load_values(const Bits* from, const Cursor& at, Offset&& offset, F&& take) {
  constexpr int V = Shape::vector;
  if constexpr (Cursor::whole) {
    load_rows<Shape, V>(from, at.base, take);
  } else {
    UNROLL
    for (int i = 0; i < Shape::fragment; ++i) {
      const uint32 within = Shape::row_start(i / V) + i % V;
      Bits b{};
      if (at.has(within)) b = from[offset(at.element(within))];
      take(i, b);
    }
  }
}

template <class Shape, class Bits, class Cursor, class Offset, class F>
KHD void store_values(Bits* to, const Cursor& at, Offset&& offset, F&& value) {
  constexpr int V = Shape::vector;
  if constexpr (Cursor::whole) {
    store_rows<Shape, V>(to, at.base, value);
  } else {
    UNROLL
    for (int i = 0; i < Shape::fragment; ++i) {
      const uint32 within = Shape::row_start(i / V) + i % V;
      if (at.has(within)) to[offset(at.element(within))] = value(i);
    }
  }
}

// ---- codes, in element order -------------------------------------------------------------------

template <class Code>
struct CodeStorage {
  using Register = Code;
  template <class Shape, class F>
  KHD static void load_rows(const void* from, int64 first, F&& take) {
    jitstep::load_rows<Shape, Shape::vector>(static_cast<const Code*>(from), first, take);
  }
  KHD static Code load_one(const void* from, int64 e) { return static_cast<const Code*>(from)[e]; }
  template <class Shape, class F>
  KHD static void store_rows(void* to, int64 first, F&& value) {
    jitstep::store_rows<Shape, Shape::vector>(static_cast<Code*>(to), first, value);
  }
  template <class Shape, class F>
  KHD static void store_some(void* to, const Linear<false>& at, F&& value) {
    store_values<Shape>(
        static_cast<Code*>(to), at, [](int64 e) { return e; }, value);
  }
};

template <>
struct CodeStorage<Nibble> {
  using Register = uint8;
  template <class Shape, class F>
  KHD static void load_rows(const void* from, int64 first, F&& take) {
    static_assert(Shape::vector % 2 == 0, "a lane owns whole bytes: vector must be even");
    jitstep::load_rows<Shape, Shape::vector / 2>(static_cast<const uint8*>(from), first / 2,
                                                 [&](int j, uint8 byte) {
                                                   take(2 * j, static_cast<uint8>(byte & 15));
                                                   take(2 * j + 1, static_cast<uint8>(byte >> 4));
                                                 });
  }
  KHD static uint8 load_one(const void* from, int64 e) {
    return static_cast<const uint8*>(from)[e / 2] >> (4 * (e & 1)) & 15;
  }
  template <class Shape, class F>
  KHD static void store_rows(void* to, int64 first, F&& value) {
    jitstep::store_rows<Shape, Shape::vector / 2>(static_cast<uint8*>(to), first / 2, [&](int j) {
      return static_cast<uint8>(value(2 * j) | value(2 * j + 1) << 4);
    });
  }
  template <class Shape, class F>
  KHD static void store_some(void* to, const Linear<false>& at, F&& value) {
    UNROLL
    for (int i = 0; i < Shape::fragment; i += 2) {
      const uint32 within = Shape::row_start(i / Shape::vector) + i % Shape::vector;
      const int high = at.has(within + 1) ? value(i + 1) : 0;
      if (at.has(within))
        static_cast<uint8*>(to)[at.element(within) / 2] = static_cast<uint8>(value(i) | high << 4);
    }
  }
};

template <>
struct CodeStorage<NoCode> {
  using Register = NoCode;
  template <class Shape, class F>
  KHD static void load_rows(const void*, int64, F&& take) {
    UNROLL
    for (int i = 0; i < Shape::fragment; ++i) take(i, NoCode{});
  }
  KHD static NoCode load_one(const void*, int64) { return {}; }
};

// 16 random bits per element of the fragment. They do not depend on how the tensor is split.
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
