// How the elements of a tensor, as they follow one another in memory, run through the entries of a domain.
#pragma once
#include "plan.cuh"

namespace jitstep {

// Whether elements are walked in loops over runs of them: by one thread, and dense.
template <class S>
constexpr bool loops() {
  return S::variant.threads == 1 && !S::strided;
}

// How many elements that follow one another in memory have one entry (step 0), or entries `step` apart.
struct Piece {
  int64 length = 1, step = 0;
};

KHD int64 entry_stride(const TensorRecord& t, uint32 reduced, int dimension) {
  int64 stride = 1;
  for (int d = dimension + 1; d < t.dims; ++d)
    if (!(reduced >> d & 1u)) stride *= t.dim[d].size;
  return stride;
}

// The dimension along which elements lie `stride` apart, or -1.
KHD int dimension_of_stride(const TensorRecord& t, int64 stride) {
  int found = -1;
  for (int d = 0; d < t.dims; ++d)
    if (t.dim[d].stride == stride && t.dim[d].size > 1) found = d;
  return found;
}

// As many of the dimensions that vary fastest as lie all inside an entry, or all between entries.
SLOW_PATH Piece piece_of(const TensorRecord& t, uint32 reduced) {
  Piece piece;
  for (int d = dimension_of_stride(t, 1); d >= 0; d = dimension_of_stride(t, piece.length)) {
    const int64 step = reduced >> d & 1u ? 0 : entry_stride(t, reduced, d);
    if (piece.length == 1) piece.step = step;
    if (step != piece.step * piece.length) break;
    piece.length *= t.dim[d].size;
  }
  return piece;
}

// Those of the domains that a kernel's results and memory differ in; kept where there are loops.
template <class S, bool Loops = loops<S>()>
struct Pieces {
  KHD explicit Pieces(const TensorRecord&) {}
};
template <class S>
struct Pieces<S, true> {
  Piece of[kOverSpace];
  KHD explicit Pieces(const TensorRecord& t) {
    for_reductions<S>([&](auto r) { find<typename decltype(r)::Domain>(t); });
    for_list(typename S::MemoryFields{}, [&](auto f) { find<typename decltype(f)::Domain>(t); });
  }

 private:
  template <class Domain>
  KHD void find(const TensorRecord& t) {
    of[Domain::space] = piece_of(t, Domain::reduced(t.dims));
  }
};

}  // namespace jitstep
