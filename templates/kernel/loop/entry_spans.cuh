// Maps the elements of a tensor, in memory order, to the entries of a domain.
#pragma once
#include "../../lang/contract.cuh"
#include "../args.cuh"

namespace jitstep {

// `length` consecutive elements in memory that have one entry (step 0), or entries `step` apart. Entries repeat after
// `period` elements. `outer`: the dimensions along which spans are consecutive. Dimensions along which entries are
// equally far apart are one.
struct EntrySpan {
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

// The fastest dimensions that are all inside an entry, or all between entries.
SLOW_PATH EntrySpan span_of(const TensorRecord& t, uint32 reduced) {
  EntrySpan span;
  int64 stride = 1;
  for (int d = dimension_of_stride(t, 1); d >= 0; d = dimension_of_stride(t, stride)) {
    const int64 size = t.dim[d].size, step = reduced >> d & 1u ? 0 : entry_stride(t, reduced, d);
    if (stride == 1) span.step = step;
    EntrySpan::Outer* const last = span.dims > 0 ? &span.outer[span.dims - 1] : nullptr;
    if (last == nullptr && step == span.step * span.length)
      span.length *= size;
    else if (last != nullptr && step == last->step * last->size)
      last->size *= size;
    else
      span.outer[span.dims++] = {size, step};
    stride *= size;
    if (step != 0) span.period = stride;
  }
  return span;
}

// A cursor over spans in memory order. It counts to find the entry of the next span, because division is slow.
class EntryCursor {
 public:
  EntryCursor() = default;
  // Starts at the span of an element.
  KHD EntryCursor(const EntrySpan& span, int64 element) : element_(element) {
    int64 number = element / span.length;
    inside_ = element - number * span.length;
    for (int d = 0; d < span.dims; ++d) {
      const int64 rest = number / span.outer[d].size;
      index_[d] = number - rest * span.outer[d].size;
      entry_ += index_[d] * span.outer[d].step;
      number = rest;
    }
  }
  // Moves to the span of another element. It divides only if that span is behind, or far ahead.
  KHD void move_to(const EntrySpan& span, int64 element) {
    inside_ += element - element_;
    element_ = element;
    if (inside_ < 0 || inside_ >= kFewSpans * span.length) *this = EntryCursor(span, element);
    for (; inside_ >= span.length; inside_ -= span.length) next(span);
  }
  // The current element, and its index in its span.
  KHD int64 element() const { return element_; }
  KHD int64 inside() const { return inside_; }
  // The entry of the span's first element.
  KHD int64 entry() const { return entry_; }
  // How many spans, from the current one, have entries span.outer[0].step apart.
  KHD int64 run(const EntrySpan& span) const {
    return span.dims == 0 ? 1 : span.outer[0].size - index_[0];
  }
  // Moves over `count` spans of a run.
  KHD void skip(const EntrySpan& span, int64 count) {
    if (span.dims == 0) return;
    entry_ += (count - 1) * span.outer[0].step;
    index_[0] += count - 1;
    next(span);
  }
  KHD void next(const EntrySpan& span) {
    for (int d = 0; d < span.dims; ++d) {
      entry_ += span.outer[d].step;
      if (++index_[d] < span.outer[d].size) return;
      entry_ -= span.outer[d].size * span.outer[d].step;
      index_[d] = 0;
    }
  }

 private:
  static constexpr int kFewSpans = 4;

  int64 element_ = -1, inside_ = 0, entry_ = 0;
  int64 index_[kMaxDims];
};

// The spans of each domain of a kernel's results and auxiliary state. It computes them on demand, and caches them.
class EntrySpans {
 public:
  KHD explicit EntrySpans(const TensorRecord& tensor) : tensor_(tensor) {}
  template <class Domain>
  KHD const EntrySpan& of() const {
    if (!(found_ >> Domain::reduction_layout & 1u))
      span_[Domain::reduction_layout] = span_of(tensor_, Domain::reduced(tensor_.dims));
    found_ |= 1u << Domain::reduction_layout;
    return span_[Domain::reduction_layout];
  }
  // A cursor at an element. It caches the last cursor, because a loop looks up several values of one domain.
  template <class Domain>
  KHD const EntryCursor& walk(int64 element) const {
    EntryCursor& last = last_[Domain::reduction_layout];
    if (last.element() != element) move(last, of<Domain>(), element);
    return last;
  }

 private:
  SLOW_PATH void move(EntryCursor& last, const EntrySpan& span, int64 element) {
    if (last.element() < 0)
      last = EntryCursor(span, element);
    else
      last.move_to(span, element);
  }

  const TensorRecord& tensor_;
  mutable uint32 found_ = 0;
  mutable EntrySpan span_[kNestedLayout];
  mutable EntryCursor last_[kNestedLayout];
};

}  // namespace jitstep
