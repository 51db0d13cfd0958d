// One thread's sums over rows and columns of matrices in one pass, so that it reads, decodes and updates elements
// once. A tile is one leaf of its columns, and some leaves of its rows.
#pragma once
#include "entry_sums.cuh"

namespace jitstep {

// Whether a pass has only reductions over elements in a layout.
template <class S, int Pass, int LayoutNumber>
constexpr bool sums_elements() {
  bool any = false, all = true;
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (PassReductions<S, Pass, LayoutNumber>::template takes<R>)
      (R::has_source ? all : any) = !R::has_source;
  });
  return any && all;
}
template <class S, int Pass, int LayoutNumber>
constexpr bool sums_tiles() {
  return (LayoutNumber == rows::reduction_layout || LayoutNumber == columns::reduction_layout) &&
         sums_elements<S, Pass, rows::reduction_layout>() &&
         sums_elements<S, Pass, columns::reduction_layout>();
}

// The tiles of one item. The items of all layouts share a tensor's tiles, and threads share the items.
struct WorkSplit {
  int64 begin, end;
};
// The tiles of the item with leaf `first` of a layout. reduction_layouts: the layouts of the tiles, as bits.
KHD WorkSplit split_of(const TensorRecord& t, uint32 reduction_layouts, int reduction_layout,
                       int64 first, int64 tiles) {
  int64 item = first / kLeaf, items = 0;
  for (int s = 0; s < kReductionLayouts; ++s) {
    if (!(reduction_layouts >> s & 1u)) continue;
    if (s == reduction_layout) item += items;
    items += (t.reduction_layouts[s].entries * t.reduction_layouts[s].leaves + kLeaf - 1) / kLeaf;
  }
  return {item * tiles / items, (item + 1) * tiles / items};
}

inline constexpr int kTileWidth = 4 * kLeaf;  // elements per row; a tile has kLeaf rows

// Whether the tensor is contiguous.
KHD bool is_in_order(const TensorRecord& t) {
  return length_of_members(t, tensor::reduced(t.dims)) == t.n;
}

// The matrices of a tensor, row-major in memory.
struct Matrices {
  int64 width = 0, height = 0, count = 0;  // count 0: not row-major, or too narrow
  KHD int64 across() const { return (width + kTileWidth - 1) / kTileWidth; }
  KHD int64 tiles() const { return across() * ((height + kLeaf - 1) / kLeaf) * count; }
};
SLOW_PATH Matrices matrices_of(const TensorRecord& t) {
  const int64 width = t.reduction_layouts[rows::reduction_layout].members,
              height = t.reduction_layouts[columns::reduction_layout].members;
  if (width < kWorthARange || !is_in_order(t)) return {};
  return {width, height, t.n / (width * height)};
}

template <class S, int Pass>
class EntryTiles {
  using OfRows = LeafSums<S, Pass, rows::reduction_layout>;
  using OfColumns = LeafSums<S, Pass, columns::reduction_layout>;
  using Columns = PairwiseAccumulator<term_ops<S, Pass, columns::reduction_layout>(), kTileWidth>;

 public:
  KHD EntryTiles(const Scope<S>& scope, const Matrices& matrices)
      : scope_(scope), matrices_(matrices) {}

  // Tile numbers increase along columns first, then matrices, then rows.
  KHD void sum(int64 tile) {
    const int64 across = tile % matrices_.across(), rest = tile / matrices_.across();
    const int64 matrix = rest % matrices_.count, down = rest / matrices_.count;
    const int64 left = across * kTileWidth, top = matrix * matrices_.height + down * kLeaf;
    const int width = static_cast<int>(min<int64>(matrices_.width - left, kTileWidth));
    const int height = static_cast<int>(min<int64>(matrices_.height - down * kLeaf, kLeaf));
    const auto element = [&](int row) { return (top + row) * matrices_.width + left; };
    const auto take = [&](int row, typename Columns::Terms& to) {
      for (int start = 0; start < width; start += kLeaf) {
        const int count = min(width - start, kLeaf);
        compute_terms(scope_, element(row) + start, count, terms_);
        OfColumns::accumulate(terms_.template of<columns::reduction_layout>(), count, to, start);
        store_row(top + row, (left + start) / kLeaf, count);
      }
    };
    const auto& sums = Columns::accumulated(columns_, height, width, typename Columns::Take(take));
    store_side_by_side<S, Pass, columns::reduction_layout>(
        scope_, down, matrix * matrices_.width + left, width, sums, 0);
  }

 private:
  KHD void store_row(int64 row, int64 leaf, int valid) {
    double sum[OfRows::kTerms];
    OfRows::add(terms_.template of<rows::reduction_layout>(), valid, sum);
    store_partial<S, Pass, rows::reduction_layout>(
        scope_, row * scope_.tensor.reduction_layouts[rows::reduction_layout].leaves + leaf, sum);
  }

  const Scope<S>& scope_;
  Matrices matrices_;
  RangeTerms<S, Pass, 1u << rows::reduction_layout | 1u << columns::reduction_layout> terms_;
  Columns columns_;
};

// Processes the tiles of a row or column item with leaf `first`. Returns false if the tensor has no tiles.
template <class S, int Pass>
SLOW_PATH bool sum_tiles(const Scope<S>& scope, int reduction_layout, int64 first) {
  const Matrices matrices = matrices_of(scope.tensor);
  if (matrices.count == 0) return false;
  constexpr uint32 kLayoutsOfTiles = 1u << rows::reduction_layout | 1u << columns::reduction_layout;
  const WorkSplit share =
      split_of(scope.tensor, kLayoutsOfTiles, reduction_layout, first, matrices.tiles());
  EntryTiles<S, Pass> tiles(scope, matrices);
  for (int64 tile = share.begin; tile < share.end; ++tile) tiles.sum(tile);
  return true;
}

}  // namespace jitstep
