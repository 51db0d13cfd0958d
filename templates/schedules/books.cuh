// The books of a step's codecs (core/codebook.cuh) in the memory that the threads of a block share: there lanes that
// ask for different places of a table wait for each other least.
#pragma once
#include "../core/lookup.cuh"
#include "plan.cuh"

namespace jitstep {

// Whether a codec's codes number the values of a book.
template <class C>
concept HasBook = requires {
  typename C::Book;
};

// Whether the thresholds say which code a value gets.
template <class C>
concept FindsInBook = HasBook<C> && !C::random;

// Whether values are those of a codec within, in units of what is remembered.
template <class C>
concept HasUnits = requires {
  typename C::InUnits;
};

// Whether whole tiles look slot I up there. One thread alone has its tables near anyway.
template <class S, int I, class Part = typename S::template Codec<I>>
constexpr bool shares_book() {
  if constexpr (kStored<Part> && S::variant.threads > 1)
    return HasBook<typename Part::Body>;
  else
    return false;
}

inline constexpr int kFirstBookSite =
    1 + kSpaces;  // behind what is prepared and the sums of each space

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

// By all threads of a block, before its first Preparation, whose barriers stand between this and every look-up.
template <class S>
KHD void fill_books() {
  static_for<S::slots>([](auto slot) {
    if constexpr (shares_book<S, decltype(slot)::value>())
      SharedBook<S, decltype(slot)::value>::here().fill();
  });
}

}  // namespace jitstep
