// A team of lanes shares a tile of consecutive indices; on the CPU the team is one thread and owns
// the whole tile. Knows geometry and sums; knows no formula and no format.
#pragma once
#include "list.cuh"

namespace jitstep {

// Index `within` a tile of N: row after row, in each row lane after lane, `vector` for each lane.
template <int N, Variant V>
struct Tile {
  static constexpr int size = N;
  static constexpr int lanes = V.lanes;
  static constexpr int vector = V.vector;
  static constexpr int fragment = N / lanes;  // elements of one lane
  static constexpr int rows = fragment / vector;
  static constexpr int stride = lanes * vector;
  static_assert(rows >= 1 && rows * stride == N, "lanes * vector must divide the tile");

  static constexpr int teams = V.threads / lanes;
  static constexpr int teams_of_warp = teams < 32 / lanes ? teams : 32 / lanes;

  // Unsigned, so that a GPU adds them to an address as they are.
  KHD static uint32 lane() { return lanes == 1 ? 0 : thread_index() % lanes; }
  KHD static uint32 team() { return teams == 1 ? 0 : thread_index() / lanes; }
  // The last team of this one's warp.
  KHD static uint32 last_of_warp() { return team() | (teams_of_warp - 1); }
  // The place in the tile of the lane's first element of a row, and its place among the lane's vectors.
  KHD static uint32 row_start(int row) { return vector_of(row) * vector; }
  KHD static uint32 vector_of(int row) { return static_cast<uint32>(row) * lanes + lane(); }
};

inline constexpr int kLeafLevels = 8;
static_assert(1 << kLeafLevels == kLeaf);

// The tree of one leaf: for s = 128, 64, ..., 1: x[i] += x[i + s]. x: one lane's fragment.
template <class Op, Variant V>
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
  UNROLL
  for (int lane = T::lanes / 2; lane >= 1; lane /= 2) {
    UNROLL
    for (int k = 0; k < T::vector; ++k) x[k] = Op::combine(x[k], shuffle_xor(x[k], lane));
  }
  UNROLL
  for (int half = T::vector / 2; half >= 1; half /= 2) {
    UNROLL
    for (int k = 0; k < half; ++k) x[k] = Op::combine(x[k], x[k + half]);
  }
  return x[0];
}

// The tree above the leaves, in place: node(k, j) = node(k-1, 2j) + node(k-1, 2j+1), absent ones
// absent. x[i * stride], i < count; the root is left in x[0]. All lanes of a warp call this with the
// same count; a lane that has nothing to do passes active = false.
template <class Op, Variant V>
KHD void node_tree(double* x, int64 count, int stride, bool active) {
  for (int64 n = count; n > 1; n = (n + 1) / 2) {
    const int64 nodes = (n + 1) / 2;
    for (int64 start = 0; start < nodes; start += V.lanes) {
      const int64 j = start + Tile<kLeaf, V>::lane();
      const bool mine = active && j < nodes;
      double node = 0;
      if (mine) node = x[2 * j * stride];
      if (mine && 2 * j + 1 < n) node = Op::combine(node, x[(2 * j + 1) * stride]);
      warp_barrier();
      if (mine) x[j * stride] = node;
      warp_barrier();
    }
  }
}

// ---- where a domain's entries lie --------------------------------------------------------------

// The index along dimension d, taken off `position` or `entry`. Selects values: a reference to one of the
// two would put both on the GPU's stack.
KHD int64 take_index(const TensorRecord& t, int d, uint32 reduced, int64& entry, int64& position) {
  const bool inside = reduced >> d & 1u;
  const int64 rest = inside ? position : entry, left = rest / t.dim[d].size;
  position = inside ? left : position;
  entry = inside ? entry : left;
  return rest % t.dim[d].size;
}

// The element at `position` of `entry`, both counted in logical order, last dimension fastest.
SLOW_PATH int64 element_of(const TensorRecord& t, uint32 reduced, int64 entry, int64 position) {
  int64 element = 0;
  for (int d = t.dims - 1; d >= 0; --d)
    element += take_index(t, d, reduced, entry, position) * t.dim[d].stride;
  return element;
}

KHD int64 coordinate(const TensorRecord& t, int d, int64 element) {
  return element / t.dim[d].stride % t.dim[d].size;
}

SLOW_PATH int64 entry_of(const TensorRecord& t, uint32 reduced, int64 element) {
  int64 entry = 0;
  for (int d = 0; d < t.dims; ++d)
    if (!(reduced >> d & 1u)) entry = entry * t.dim[d].size + coordinate(t, d, element);
  return entry;
}

// The entry of the finer domain at `position` of `entry` of the coarser one.
SLOW_PATH int64 finer_entry(const TensorRecord& t, uint32 reduced, uint32 finer, int64 entry,
                            int64 position) {
  int64 result = 0, scale = 1;
  for (int d = t.dims - 1; d >= 0; --d) {
    if (finer >> d & 1u) continue;
    result += take_index(t, d, reduced, entry, position) * scale;
    scale *= t.dim[d].size;
  }
  return result;
}

SLOW_PATH int64 offset_of(const TensorRecord& t, int64 Dim::*stride, int64 element) {
  int64 offset = 0;
  for (int d = 0; d < t.dims; ++d) offset += coordinate(t, d, element) * (t.dim[d].*stride);
  return offset;
}

}  // namespace jitstep
