// One thread's sums over the rows and the columns of matrices, where a pass takes both: their elements are read,
// decoded and advanced once, a tile after another, which is one leaf of its columns and some of its rows.
#pragma once
#include "entry_sums.cuh"

namespace jitstep {

// The domain that has the rows where a space has the columns of the same matrices, or -1.
constexpr int rows_beside(int space) {
  return space == columns::space ? rows::space : space == axis<1>::space ? axis<0>::space : -1;
}
constexpr int columns_beside(int space) {
  return space == rows::space ? columns::space : space == axis<0>::space ? axis<1>::space : -1;
}

// Whether a pass sums over elements, and nothing else, in a space.
template <class S, int Pass, int SpaceNumber>
constexpr bool sums_elements() {
  bool any = false, all = true;
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (Walk<S, Pass, SpaceNumber>::template takes<R>) (R::over ? all : any) = !R::over;
  });
  return any && all;
}
template <class S, int Pass, int Columns>
constexpr bool sums_tiles() {
  if constexpr (constexpr int kRows = rows_beside(Columns); kRows >= 0 && loops<S>())
    return sums_elements<S, Pass, kRows>() && sums_elements<S, Pass, Columns>();
  else
    return false;
}

inline constexpr int kTileWidth = 4 * kLeaf;  // elements; a tile has kLeaf rows

// Matrices in one tensor, row after row in memory: rows are entries of one space, columns of the other.
struct Matrices {
  int64 width = 0, height = 0, count = 0;  // none: the tensor's are not
  KHD int64 across() const { return (width + kTileWidth - 1) / kTileWidth; }
  KHD int64 tiles() const { return across() * ((height + kLeaf - 1) / kLeaf) * count; }
};
template <int Rows, int Columns>
SLOW_PATH Matrices matrices_of(const TensorRecord& t) {
  const int64 width = t.spaces[Rows].members, height = t.spaces[Columns].members;
  const bool in_order = length_of_members(t, tensor::reduced(t.dims)) == t.n;
  const bool across = length_of_members(t, reduced_in<Rows>(t.dims)) == width;
  const bool down = side_by_side(t, reduced_in<Columns>(t.dims)) == width;
  if (width < kWorthARun || !in_order || !across || !down) return {};
  return {width, height, t.spaces[Columns].entries / width};
}

template <class S, int Pass, int Rows, int Columns>
class EntryTiles {
  using OfRows = LeafSums<S, Pass, Rows>;
  using OfColumns = LeafSums<S, Pass, Columns>;

 public:
  KHD EntryTiles(const Scope<S>& scope, const Matrices& matrices)
      : scope_(scope), matrices_(matrices) {}

  // Tiles follow one another as columns do, then matrices, then rows.
  KHD void sum(int64 tile) {
    const int64 across = tile % matrices_.across(), rest = tile / matrices_.across();
    const int64 matrix = rest % matrices_.count, down = rest / matrices_.count;
    const int64 left = across * kTileWidth, top = matrix * matrices_.height + down * kLeaf;
    const int width = static_cast<int>(min<int64>(matrices_.width - left, kTileWidth));
    const int height = static_cast<int>(min<int64>(matrices_.height - down * kLeaf, kLeaf));
    const auto element = [&](int row) { return (top + row) * matrices_.width + left; };
    const auto& sums = columns_.grown(height, width, [&](int row, auto& to) {
      for (int start = 0; start < width; start += kLeaf) {
        const int count = min(width - start, kLeaf);
        take(scope_, element(row) + start, count, row_, to, start);
        store_row(top + row, (left + start) / kLeaf, count);
      }
    });
    store_side_by_side<S, Pass, Columns>(scope_, down, matrix * matrices_.width + left, width,
                                         sums);
  }

 private:
  using Terms = real[OfRows::kTerms][kLeaf];

  // The terms of some elements of one row, for its sum and for those of the columns from number `start` on.
  SLOW_PATH void take(const Scope<S>& scope, int64 element, int count, Terms& row, auto& columns,
                      int start) {
    for_terms<S, Pass>(scope, element, count, [&](auto r, const auto& terms, int i) {
      using R = decltype(r);
      if constexpr (OfRows::Here::template takes<R>) OfRows::template take<R>(terms, row, i, true);
      if constexpr (OfColumns::Here::template takes<R>)
        OfColumns::template grow<R>(terms, columns, start + i);
    });
  }
  KHD void store_row(int64 row, int64 leaf, int valid) {
    double sum[OfRows::kTerms];
    OfRows::add(row_, valid, sum);
    store_partial<S, Pass, Rows>(scope_, row * scope_.tensor.spaces[Rows].leaves + leaf, sum);
  }

  const Scope<S>& scope_;
  Matrices matrices_;
  Terms row_;
  GrowingLeaves<S, Pass, Columns, kTileWidth> columns_;
};

// Whether an item of the rows or the columns, the one with leaf `first`, is done with by its share of the tiles: those
// of a tensor are spread over the items of both, as these are over threads.
template <class S, int Pass, int Rows, int Columns>
SLOW_PATH bool sum_share_of_tiles(const Scope<S>& scope, int space, int64 first) {
  const Matrices matrices = matrices_of<Rows, Columns>(scope.tensor);
  if (matrices.count == 0) return false;
  const auto items = [&](int of) {
    const Space& sums = scope.tensor.spaces[of];
    return (sums.entries * sums.leaves + kLeaf - 1) / kLeaf;
  };
  const int64 item = first / kLeaf + (space == Columns ? items(Rows) : 0);
  const int64 share = matrices.tiles(), shares = items(Rows) + items(Columns);
  EntryTiles<S, Pass, Rows, Columns> tiles(scope, matrices);
  for (int64 tile = item * share / shares; tile < (item + 1) * share / shares; ++tile)
    tiles.sum(tile);
  return true;
}
template <class S, int Pass, int SpaceNumber>
KHD bool sum_in_tiles(const Scope<S>& scope, int64 first) {
  constexpr int kColumns = columns_beside(SpaceNumber), kRows = rows_beside(SpaceNumber);
  if constexpr (sums_tiles<S, Pass, kColumns>())
    return sum_share_of_tiles<S, Pass, SpaceNumber, kColumns>(scope, SpaceNumber, first);
  else if constexpr (sums_tiles<S, Pass, SpaceNumber>())
    return sum_share_of_tiles<S, Pass, kRows, SpaceNumber>(scope, SpaceNumber, first);
  else
    return false;
}

}  // namespace jitstep
