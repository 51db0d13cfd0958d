// The codebooks of a step's codecs (core/codebook.cuh) in shared memory, where lanes that read different entries of a
// table wait for each other least.
#pragma once
#include "../core/lookup.cuh"
#include "plan.cuh"

namespace jitstep {

// Whether a codec's codes index a codebook.
template <class C>
concept HasBook = requires {
  typename C::Book;
};

// Whether thresholds determine the code of a value.
template <class C>
concept FindsInBook = HasBook<C> && !C::random;

// Whether a codec applies an inner codec to normalized values.
template <class C>
concept HasUnits = requires {
  typename C::InUnits;
};

// Whether whole tiles use shared memory for slot I. A single thread has its tables in the cache anyway.
template <class S, int I, class Part = typename S::template Codec<I>>
constexpr bool shares_book() {
  if constexpr (kStored<Part> && S::variant.threads > 1)
    return HasBook<typename Part::Body>;
  else
    return false;
}

inline constexpr int kFirstBookSite =
    1 + kSpaces;  // after the prepared scalars and the sums of each layout

template <class S, int I>
struct SharedBook {
  using Book = typename S::template Codec<I>::Body::Book;
  static constexpr int size = kSizeOf<Book::values>;
  Table<size> values, thresholds;

  KHD static SharedBook& here() { return *shared<SharedBook, kFirstBookSite + I>(); }
  KHD void fill() {
    for (uint32 code = thread_index(); code < size; code += S::variant.threads) {
      values.x[code] = Book::values.x[code];
      thresholds.x[code] = Book::thresholds.x[code];
    }
  }
};

// Called by all threads of a block before the first Preparation. Its barriers separate this from every lookup.
template <class S>
KHD void fill_books() {
  static_for<S::slots>([](auto slot) {
    if constexpr (shares_book<S, decltype(slot)::value>())
      SharedBook<S, decltype(slot)::value>::here().fill();
  });
}

}  // namespace jitstep
