// One thread's maxima along several dimensions in one pass, so that it reads, decodes and updates elements once.
// Maxima combine in any order, so they need no separate leaves. A tile has up to kLeaf rows (entries of dimension 0).
// Its width is a multiple of kLeaf and of an entry of dimension 1. The index of a partial maximum only needs to be
// unique.
#pragma once
#include "entry_tiles.cuh"

namespace jitstep {

inline constexpr int kMostInside =
    32;  // maximum of consecutive elements of one entry of dimension 1

// Whether a pass has only maxima of elements along dimension K.
template <class S, int Pass, int K>
constexpr bool takes_maxima() {
  return sums_elements<S, Pass, axis<K>::reduction_layout>() &&
         in_any_order<S, Pass, axis<K>::reduction_layout>();
}
// The layouts, as bits, of the dimensions whose maxima share a pass.
template <class S, int Pass>
constexpr uint32 joint_maxima() {
  uint32 reduction_layouts = 0;
  static_for<4>([&](auto k) {
    constexpr int K = decltype(k)::value;
    if (takes_maxima<S, Pass, K>()) reduction_layouts |= 1u << axis<K>::reduction_layout;
  });
  const uint32 first_two = 1u << axis<0>::reduction_layout | 1u << axis<1>::reduction_layout;
  return (reduction_layouts & first_two) == first_two ? reduction_layouts : 0;
}

// A contiguous tensor as rows of `width` elements. A row has `inside` consecutive elements of each entry of
// dimension 1. Tiles have kLeaf by `tile` elements. tile is 0 if the tensor is not contiguous or entries are too long.
struct Rows {
  int64 rows = 0, width = 0;
  int inside = 0, tile = 0;
  KHD int64 across() const { return (width + tile - 1) / tile; }
  KHD int64 down() const { return (rows + kLeaf - 1) / kLeaf; }
};
SLOW_PATH Rows rows_of(const TensorRecord& t) {
  if (t.dims < 2 || !is_in_order(t)) return {};
  const int64 width = t.n / t.dim[0].size, inside = width / t.dim[1].size;
  if (width < kWorthARange || inside > kMostInside) return {};
  const int whole = static_cast<int>(inside) * kLeaf;
  return {t.dim[0].size, width, static_cast<int>(inside), max(1, kTileWidth / whole) * whole};
}

template <class S, int Pass>
class EntryMaxima {
  template <int K>
  using Along = LeafSums<S, Pass, axis<K>::reduction_layout>;
  template <int K>
  using Here = PassReductions<S, Pass, axis<K>::reduction_layout>;
  template <int K, int Room>
  struct Terms {
    static constexpr int count = Here<K>::terms() > 0 ? Here<K>::terms() : 1;
    real x[count][Room];
  };

 public:
  KHD EntryMaxima(const Scope<S>& scope, const Rows& rows) : scope_(scope), rows_(rows) {}

  KHD void take(int64 tile) {
    const int64 across = tile % rows_.across(), down = tile / rows_.across();
    const int64 left = across * rows_.tile, top = down * kLeaf;
    const int width = static_cast<int>(min<int64>(rows_.width - left, rows_.tile));
    const int64 bottom = min(rows_.rows, top + kLeaf);
    clear<1>(columns_.x, width);
    clear<2>(second_.x, kPhases);
    clear<3>(third_.x, kPhases);
    for (int64 row = top; row < bottom; ++row)
      for (int start = 0; start < width; start += kLeaf) {
        const int count = min(width - start, kLeaf);
        compute_terms(scope_, row * rows_.width + left + start, count, terms_);
        accumulate(count, start);
        double most[Here<0>::terms()];
        Along<0>::add(terms_.template of<axis<0>::reduction_layout>(), count, most);
        store<0>(row, (left + start) / kLeaf, most);
      }
    store_columns(left, width, down);
    store_phases<2>(second_.x, tile);
    store_phases<3>(third_.x, tile);
  }

 private:
  static constexpr int kPhases = kLeaf + kMostInside;

  template <int K>
  KHD static void clear(auto& x, int count) {
    for (int n = 0; n < Here<K>::terms(); ++n)
      for (int i = 0; i < count; ++i) x[n][i] = static_cast<real>(-kInfinity);
  }

  // Accumulates the terms of `count` elements of a row, from number `start` in the tile. Of dimensions after 1,
  // elements `inside` apart belong to the same entry.
  KHD void accumulate(int count, int start) {
    const int phase = start % rows_.inside;
    accumulate_along<1>(count, columns_.x, start);
    accumulate_along<2>(count, second_.x, phase);
    accumulate_along<3>(count, third_.x, phase);
  }
  template <int K>
  KHD void accumulate_along(int count, auto& to, int first) {
    Along<K>::accumulate(terms_.template of<axis<K>::reduction_layout>(), count, to, first);
  }

  // The maximum of the elements that `wanted` selects.
  KHD static real largest(const real* x, int count, auto&& wanted) {
    real most = static_cast<real>(-kInfinity);
    for (int i = 0; i < count; ++i)
      if (wanted(i)) most = maximum(most, x[i]);
    return most;
  }

  template <int K>
  KHD void store(int64 entry, int64 index, const double* most) const {
    constexpr int kLayout = axis<K>::reduction_layout;
    store_partial<S, Pass, kLayout>(
        scope_, entry * scope_.tensor.reduction_layouts[kLayout].leaves + index, most);
  }
  // Stores the last partial maximum of an entry, and fills the unused ones.
  template <int K>
  KHD void store_last(int64 entry, int64 index, const double* most) const {
    store<K>(entry, index, most);
    double absent[Terms<K, 1>::count];
    for (double& x : absent) x = -kInfinity;
    while (++index < scope_.tensor.reduction_layouts[axis<K>::reduction_layout].leaves)
      store<K>(entry, index, absent);
  }

  KHD void store_columns(int64 left, int width, int64 down) const {
    for (int start = 0; start < width; start += rows_.inside) {
      double most[Here<1>::terms()];
      for (int n = 0; n < Here<1>::terms(); ++n)
        most[n] = largest(columns_.x[n] + start, rows_.inside, [](int) { return true; });
      const int64 entry = (left + start) / rows_.inside;
      down + 1 < rows_.down() ? store<1>(entry, down, most) : store_last<1>(entry, down, most);
    }
  }
  template <int K>
  KHD void store_phases(const auto& x, int64 tile) const {
    if constexpr (takes_maxima<S, Pass, K>()) {
      const TensorRecord& t = scope_.tensor;
      const int entries = K < t.dims ? static_cast<int>(t.dim[K].size) : 1;
      int apart = 1;
      for (int d = K + 1; d < t.dims; ++d) apart *= static_cast<int>(t.dim[d].size);
      const int64 tiles = rows_.across() * rows_.down();
      for (int entry = 0; entry < entries; ++entry) {
        double most[Here<K>::terms()];
        for (int n = 0; n < Here<K>::terms(); ++n)
          most[n] = largest(x[n], kPhases,
                            [&](int k) { return k % rows_.inside / apart % entries == entry; });
        tile + 1 < tiles ? store<K>(entry, tile, most) : store_last<K>(entry, tile, most);
      }
    }
  }

  const Scope<S>& scope_;
  Rows rows_;
  RangeTerms<S, Pass, joint_maxima<S, Pass>()> terms_;
  Terms<1, kMostInside * kLeaf> columns_;
  Terms<2, kPhases> second_;
  Terms<3, kPhases> third_;
};

// Processes the tiles of one dimension's item with leaf `first`. Returns false if the tensor has no tiles.
template <class S, int Pass>
SLOW_PATH bool take_maxima(const Scope<S>& scope, int reduction_layout, int64 first) {
  const Rows rows = rows_of(scope.tensor);
  if (rows.tile == 0) return false;
  const WorkSplit share = split_of(scope.tensor, joint_maxima<S, Pass>(), reduction_layout, first,
                                   rows.across() * rows.down());
  EntryMaxima<S, Pass> maxima(scope, rows);
  for (int64 tile = share.begin; tile < share.end; ++tile) maxima.take(tile);
  return true;
}

}  // namespace jitstep
