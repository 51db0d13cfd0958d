// How reductions combine terms.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep {

// in_any_order: whether the order of combining terms does not change the result. absent: what a missing term counts
// as.
struct SumOp {
  static constexpr bool in_any_order = false;
  static constexpr double absent = 0;
  template <class T>
  KHD static T combine(T a, T b) {
    return a + b;
  }
};
struct MaxOp {
  static constexpr bool in_any_order = true;
  static constexpr double absent = -kInfinity;
  template <class T>
  KHD static T combine(T a, T b) {
    return maximum(a, b);
  }
};

}  // namespace jitstep
