// A team of lanes shares a tile of consecutive indices. On the CPU a team is one thread with a whole tile.
// Geometry and sums, independent of formulas and formats.
#pragma once
#include "../lang/list.cuh"
#include "args.cuh"

namespace jitstep {

// A tile larger than a leaf gets a larger team, so that a lane holds no more elements than of a leaf. This requires
// that the block's threads divide into such teams.
constexpr int lanes_of_tile(int size, KernelConfig v) {
  int lanes = v.tile_lanes;
  for (int n = kLeaf; n < size && v.threads % (2 * lanes) == 0; n *= 2) lanes *= 2;
  return lanes;
}

// A tile of N indices: rows of lanes, with `vector` consecutive indices per lane and row. Assembly: whether the kernel
// contains assembly.
template <int N, KernelConfig V, bool Assembly = false>
struct Tile {
  static constexpr int size = N;
  static constexpr int threads = V.threads;
  static constexpr int lanes = lanes_of_tile(N, V);
  static constexpr int vector = V.vector_elems;
  static constexpr int fragment = N / lanes;  // elements of one lane
  static constexpr int rows = fragment / vector;
  static constexpr int stride = lanes * vector;
  static_assert(rows >= 1 && rows * stride == N, "lanes * vector must divide the tile");

  static constexpr int teams = V.threads / lanes;
  static constexpr int teams_of_warp = teams < 32 / lanes ? teams : 32 / lanes;

  // Unsigned, so that a GPU can add it to an address without a conversion.
  KHD static uint32 lane() { return lanes == 1 ? 0 : thread_index() % lanes; }
  KHD static uint32 team() { return teams == 1 ? 0 : thread_index() / lanes; }
  // The last team that shares a barrier with this one: in its warp, or in the block if a team has several warps.
  KHD static uint32 last_in_lockstep() {
    return lanes > 32 ? teams - 1 : team() | (teams_of_warp - 1);
  }
  // The index in the tile of the lane's first element of a row, and the index of that vector.
  KHD static uint32 row_start(int row) { return vector_of(row) * vector; }
  KHD static uint32 vector_of(int row) { return static_cast<uint32>(row) * lanes + lane(); }

  // p, which points to global memory. In kernels without assembly the compiler knows, and then orders loads better.
  template <class T>
  KHD static T* in_memory(T* p) {
    if constexpr (Assembly) return in_global(p);
    return p;
  }
};

inline constexpr int kLeafLevels = 8;
static_assert(1 << kLeafLevels == kLeaf);

// The rest of a leaf's tree, of values x[0] to x[Held - 1] in lanes that differ in bits up to Lane. Of two lanes, one
// adds the values with even index, the other those with odd index. So each computes half of the sums.
template <class Op, int Held, int Lane>
KHD real lanes_tree(real* x) {
  if constexpr (Lane == 0) {
    UNROLL
    for (int half = Held / 2; half >= 1; half /= 2) {
      UNROLL
      for (int k = 0; k < half; ++k) x[k] = Op::combine(x[k], x[k + half]);
    }
    return x[0];
  } else if constexpr (Held == 1) {
    x[0] = Op::combine(x[0], shuffle_xor(x[0], Lane));
    return lanes_tree<Op, 1, Lane / 2>(x);
  } else {
    const bool odd = (thread_index() & Lane) != 0;
    UNROLL
    for (int k = 0; k < Held / 2; ++k) {
      const real own = chosen(odd, x[2 * k + 1], x[2 * k]);
      const real other = chosen(odd, x[2 * k], x[2 * k + 1]);
      x[k] = Op::combine(own, shuffle_xor(other, Lane));
    }
    const real sum = lanes_tree<Op, Held / 2, Lane / 2>(x);
    return Op::combine(sum, shuffle_xor(sum, Lane));
  }
}

// The sum of one leaf: for s = 128, 64, ..., 1: x[i] += x[i + s]. x: one lane's fragment.
template <class Op, KernelConfig V>
KHD real leaf_tree(real* x) {
  using T = Tile<kLeaf, V>;
  if constexpr (T::lanes == 1) {
    static_for<kLeafLevels>([&](auto level) {
      constexpr int half = kLeaf >> (decltype(level)::value + 1);
      for (int i = 0; i < half; ++i) x[i] = Op::combine(x[i], x[i + half]);
    });
    return x[0];
  }
  UNROLL
  for (int half = T::rows / 2; half >= 1; half /= 2) {
    UNROLL
    for (int i = 0; i < half * T::vector; ++i) x[i] = Op::combine(x[i], x[i + half * T::vector]);
  }
  return lanes_tree<Op, T::vector, T::lanes / 2>(x);
}

// The threads that compute the tree above the leaves: the lanes of a team, or all threads of a block.
template <KernelConfig V>
struct LanesOfTeam {
  static constexpr int size = V.tile_lanes;
  KHD static uint32 index() { return Tile<kLeaf, V>::lane(); }
  KHD static void barrier() { warp_barrier(); }
};
template <KernelConfig V>
struct ThreadsOfBlock {
  static constexpr int size = V.threads;
  KHD static uint32 index() { return thread_index(); }
  KHD static void barrier() { block_barrier(); }
};

// The tree above the leaves, in place: node(k, j) = node(k-1, 2j) + node(k-1, 2j+1), without missing nodes.
// Reads x[i * stride] for i < count and leaves the root in x[0]. All threads of a barrier must call this with the
// same count. Threads without work pass active = false.
template <class Op, class Workers>
KHD void node_tree(double* x, int64 count, int stride, bool active) {
  for (int64 n = count; n > 1; n = (n + 1) / 2) {
    const int64 nodes = (n + 1) / 2;
    for (int64 start = 0; start < nodes; start += Workers::size) {
      const int64 j = start + Workers::index();
      const bool mine = active && j < nodes;
      double node = 0;
      if (mine) node = x[2 * j * stride];
      if (mine && 2 * j + 1 < n) node = Op::combine(node, x[(2 * j + 1) * stride]);
      Workers::barrier();
      if (mine) x[j * stride] = node;
      Workers::barrier();
    }
  }
}

// The same, if each lane of a warp holds one node or `absent`. Every lane gets the root.
template <class Op>
KHD double warp_tree(double x) {
  UNROLL
  for (int lane = 1; lane < 32; lane *= 2) x = Op::combine(x, shuffle_xor(x, lane));
  return x;
}

}  // namespace jitstep
