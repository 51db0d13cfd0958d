// Compile-time lists: fields of an aggregate by number, loops over constants.
#pragma once
#include "contract.cuh"

namespace jitstep {

template <int I>
struct Index {
  static constexpr int value = I;
  KHD constexpr operator int() const { return I; }
};

template <int N, int I = 0, class F>
KHD constexpr void static_for(F&& f) {
  if constexpr (I < N) {
    f(Index<I>{});
    static_for<N, I + 1>(f);
  }
}

// Argument I.
template <int I, class T, class... Ts>
KHD constexpr auto& nth(T& head, Ts&... tail) {
  if constexpr (I == 0)
    return head;
  else
    return nth<I - 1>(tail...);
}

// Field I of an aggregate of N fields.
template <int I, int N, class T>
KHD constexpr auto& field(T& s) {
  static_assert(N >= 1 && N <= 8, "1 to 8 fields");
  const auto pick = [](auto&... fields) -> auto& { return nth<I>(fields...); };
  if constexpr (N == 1) {
    auto& [f0] = s;
    return pick(f0);
  } else if constexpr (N == 2) {
    auto& [f0, f1] = s;
    return pick(f0, f1);
  } else if constexpr (N == 3) {
    auto& [f0, f1, f2] = s;
    return pick(f0, f1, f2);
  } else if constexpr (N == 4) {
    auto& [f0, f1, f2, f3] = s;
    return pick(f0, f1, f2, f3);
  } else if constexpr (N == 5) {
    auto& [f0, f1, f2, f3, f4] = s;
    return pick(f0, f1, f2, f3, f4);
  } else if constexpr (N == 6) {
    auto& [f0, f1, f2, f3, f4, f5] = s;
    return pick(f0, f1, f2, f3, f4, f5);
  } else if constexpr (N == 7) {
    auto& [f0, f1, f2, f3, f4, f5, f6] = s;
    return pick(f0, f1, f2, f3, f4, f5, f6);
  } else if constexpr (N == 8) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7] = s;
    return pick(f0, f1, f2, f3, f4, f5, f6, f7);
  }
}

template <class T>
T& declare();

template <int I, int N, class T>
struct FieldType {
  template <class U>
  struct Plain;
  template <class U>
  struct Plain<U&> {
    using type = U;
  };
  using type = typename Plain<decltype(field<I, N>(declare<T>()))>::type;
};

template <class... Ts>
struct List {
  static constexpr int size = sizeof...(Ts);
};

template <int I, class L>
struct At;
template <class T, class... Ts>
struct At<0, List<T, Ts...>> {
  using type = T;
};
template <int I, class T, class... Ts>
struct At<I, List<T, Ts...>> : At<I - 1, List<Ts...>> {};

}  // namespace jitstep
