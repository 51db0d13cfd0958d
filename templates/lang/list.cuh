// Compile-time lists: types by number, fields as types, loops over both.
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

template <class T>
T& declare();

// A field of a structure, as a type.
template <class Structure, class Type>
Type type_of(Type Structure::*);
template <auto Pointer>
struct FieldRef {
  using Type = decltype(type_of(Pointer));
  static constexpr auto pointer = Pointer;
};

template <class... Ts>
struct List {
  static constexpr int size = sizeof...(Ts);
};

// Calls f(T) for every T of a list.
template <class... Ts, class F>
KHD constexpr void for_list(List<Ts...>, F&& f) {
  (f(Ts{}), ...);
}

template <int I, class L>
struct At;
template <class T, class... Ts>
struct At<0, List<T, Ts...>> {
  using type = T;
};
template <int I, class T, class... Ts>
struct At<I, List<T, Ts...>> : At<I - 1, List<Ts...>> {};

// T<0> to T<Count - 1>, constructed from the same arguments, in this order.
template <int Count, template <int> class T>
class Each : Each<Count - 1, T> {
  using Before = Each<Count - 1, T>;

 public:
  template <class... Args>
  KHD explicit Each(const Args&... args) : Before(args...), last_(args...) {}
  // Calls f(Index, element) for each.
  template <class F>
  KHD void visit(F&& f) const {
    Before::visit(f);
    f(Index<Count - 1>{}, last_);
  }

 private:
  T<Count - 1> last_;
};
template <template <int> class T>
class Each<0, T> {
 public:
  template <class... Args>
  KHD explicit Each(const Args&...) {}
  template <class F>
  KHD void visit(F&&) const {}
};

}  // namespace jitstep
