// The codebooks of a step's codecs (codecs/support/codebook.cuh) in shared memory. Lanes that read different entries of
// a table wait least for each other there.
#pragma once
#include "../../codecs/support/table.cuh"
#include "../plan.cuh"

namespace jitstep {

// Whether whole tiles use shared memory for slot I. A single thread has its tables in the cache anyway.
template <class S, int I, class Component = typename S::template Codec<I>>
constexpr bool shares_codebook() {
  if constexpr (kStored<Component> && S::config.threads > 1)
    return HasCodebook<typename Component::Body>;
  else
    return false;
}

inline constexpr int kFirstCodebookSite =
    1 + kReductionLayouts;  // after the prepared scalars and the sums of each layout

template <class S, int I>
struct SharedCodebook {
  using Body = typename S::template Codec<I>::Body;
  using Codebook = typename Body::Codebook;
  static constexpr int size = kSizeOf<Codebook::values>;
  Table<size> values, thresholds;

  KHD static SharedCodebook& here() { return *shared<SharedCodebook, kFirstCodebookSite + I>(); }
  KHD void fill() {
    for (uint32 code = thread_index(); code < size; code += S::config.threads) {
      values.x[code] = Codebook::values.x[code];
      if constexpr (requires { Body::quick_threshold(code); })
        thresholds.x[code] = Body::quick_threshold(code);
      else
        thresholds.x[code] = Codebook::thresholds.x[code];
    }
  }
};

// All threads of a block must call this before the first Preparation, whose barriers separate it from every lookup.
template <class S>
KHD void fill_codebooks() {
  static_for<S::slots>([](auto slot) {
    if constexpr (shares_codebook<S, decltype(slot)::value>())
      SharedCodebook<S, decltype(slot)::value>::here().fill();
  });
}

}  // namespace jitstep
