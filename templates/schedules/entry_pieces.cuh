// Maps the elements of a tensor, in memory order, to the entries of a domain.
#pragma once
#include "plan.cuh"

namespace jitstep {

// Whether one thread processes dense elements in loops over ranges.
template <class S>
constexpr bool loops() {
  return S::variant.threads == 1 && !S::strided;
}

// `length` consecutive elements in memory that have one entry (step 0), or entries `step` apart. Entries repeat
// after `period` elements. `outer`: the dimensions along which spans are consecutive.
struct Piece {
  struct Outer {
    int64 size, step;
  };
  int64 length = 1, step = 0, period = 1;
  int dims = 0;
  Outer outer[kMaxDims];
};

KHD int64 entry_stride(const TensorRecord& t, uint32 reduced, int dimension) {
  int64 stride = 1;
  for (int d = dimension + 1; d < t.dims; ++d)
    if (!(reduced >> d & 1u)) stride *= t.dim[d].size;
  return stride;
}

// The dimension with elements `stride` apart, or -1.
KHD int dimension_of_stride(const TensorRecord& t, int64 stride) {
  int found = -1;
  for (int d = 0; d < t.dims; ++d)
    if (t.dim[d].stride == stride && t.dim[d].size > 1) found = d;
  return found;
}

// The fastest dimensions, as many as are all inside an entry, or all between entries.
SLOW_PATH Piece piece_of(const TensorRecord& t, uint32 reduced) {
  Piece piece;
  int64 stride = 1;
  for (int d = dimension_of_stride(t, 1); d >= 0; d = dimension_of_stride(t, stride)) {
    const int64 size = t.dim[d].size, step = reduced >> d & 1u ? 0 : entry_stride(t, reduced, d);
    if (stride == 1) piece.step = step;
    if (piece.dims == 0 && step == piece.step * piece.length)
      piece.length *= size;
    else
      piece.outer[piece.dims++] = {size, step};
    stride *= size;
    if (step != 0) piece.period = stride;
  }
  return piece;
}

// A cursor over spans in memory order. It finds the entry of the next span by counting, without division.
class PieceWalk {
 public:
  PieceWalk() = default;
  // Starts at the span of an element.
  KHD PieceWalk(const Piece& piece, int64 element) : element_(element) {
    int64 number = element / piece.length;
    inside_ = element - number * piece.length;
    for (int d = 0; d < piece.dims; ++d) {
      const int64 rest = number / piece.outer[d].size;
      index_[d] = number - rest * piece.outer[d].size;
      entry_ += index_[d] * piece.outer[d].step;
      number = rest;
    }
  }
  // Moves to the span of another element. If it is a few spans ahead, without division.
  KHD void move_to(const Piece& piece, int64 element) {
    inside_ += element - element_;
    element_ = element;
    if (inside_ < 0 || inside_ >= kFewPieces * piece.length) *this = PieceWalk(piece, element);
    for (; inside_ >= piece.length; inside_ -= piece.length) next(piece);
  }
  // The current element, and its index in its span.
  KHD int64 element() const { return element_; }
  KHD int64 inside() const { return inside_; }
  // The entry of the span's first element.
  KHD int64 entry() const { return entry_; }
  KHD void next(const Piece& piece) {
    for (int d = 0; d < piece.dims; ++d) {
      entry_ += piece.outer[d].step;
      if (++index_[d] < piece.outer[d].size) return;
      entry_ -= piece.outer[d].size * piece.outer[d].step;
      index_[d] = 0;
    }
  }

 private:
  static constexpr int kFewPieces = 4;

  int64 element_ = -1, inside_ = 0, entry_ = 0;
  int64 index_[kMaxDims];
};

// The spans of each domain of a kernel's results and auxiliary state. Computed on demand, and cached if there are
// loops.
template <class S, bool Loops = loops<S>()>
struct Pieces {
  KHD explicit Pieces(const TensorRecord&) {}
};
template <class S>
class Pieces<S, true> {
 public:
  KHD explicit Pieces(const TensorRecord& tensor) : tensor_(tensor) {}
  template <class Domain>
  KHD const Piece& of() const {
    if (!(found_ >> Domain::space & 1u))
      piece_[Domain::space] = piece_of(tensor_, Domain::reduced(tensor_.dims));
    found_ |= 1u << Domain::space;
    return piece_[Domain::space];
  }
  // A cursor at an element. Several values of a domain are looked up in turn, so the last cursor is cached.
  template <class Domain>
  KHD const PieceWalk& walk(int64 element) const {
    PieceWalk& last = last_[Domain::space];
    const Piece& piece = of<Domain>();
    if (last.element() < 0)
      last = PieceWalk(piece, element);
    else if (last.element() != element)
      last.move_to(piece, element);
    return last;
  }

 private:
  const TensorRecord& tensor_;
  mutable uint32 found_ = 0;
  mutable Piece piece_[kOverSpace];
  mutable PieceWalk last_[kOverSpace];
};

}  // namespace jitstep
