// Loads a tile from memory into arrays, and passes each element to the rule.
#pragma once
#include "../element.cuh"
#include "fragment.cuh"
#include "shared_codebooks.cuh"

namespace jitstep {

template <class S, class Shape>
struct Fragment {
  real p[Shape::fragment];
  real g[Shape::fragment];
  real prev[S::slots > 0 ? S::slots : 1][Shape::fragment];
  real input[S::inputs > 0 ? S::inputs : 1][S::inputs > 0 ? Shape::fragment : 1];
  real transformed[S::transforms > 0 ? S::transforms : 1][S::transforms > 0 ? Shape::fragment : 1];
};

// The memory offset of element e in p or g.
template <class S>
KHD int64 offset_in(const Scope<S>& scope, Layout dense, int64 Dim::*stride, int64 e) {
  if constexpr (S::strided)
    return scope.step.layout & dense ? e : offset_of(scope.tensor, stride, e);
  else
    return e;
}

// Whether a tensor's whole tiles move in vectors.
KHD bool is_dense_and_aligned(const StepRecord& step) {
  return step.layout == (kDenseP | kDenseG | kAligned);
}

template <class S, class Shape, class Cursor>
KHD void load_weights(const Scope<S>& scope, const Cursor& at, real* p) {
  using W = typename S::Weights;
  const auto offset = [&](int64 e) { return offset_in<S>(scope, kDenseP, &Dim::p_stride, e); };
  const auto* from = static_cast<const typename S::P::Bits*>(scope.tensor.p);
  if constexpr (kSame<typename W::Residual, NoResidual>) {
    load_values<Shape>(from, at, offset, [&](int i, auto bits) { p[i] = W::load(bits); });
  } else {
    typename S::P::Bits bits[Shape::fragment];
    const bool held = residual_is_set(scope);
    load_values<Shape>(from, at, offset, [&](int i, auto b) { bits[i] = b; });
    load_values<Shape>(
        static_cast<const typename W::Residual*>(scope.tensor.residual), at,
        [](int64 e) { return e; },
        [&](int i, auto residual) {
          p[i] = held ? W::load(bits[i], residual) : W::first(bits[i]);
        });
  }
}

template <class S, class Shape, class Cursor>
KHD void load_gradient(const Scope<S>& scope, const Cursor& at, real* g) {
  const auto offset = [&](int64 e) { return offset_in<S>(scope, kDenseG, &Dim::g_stride, e); };
  load_values<Shape>(
      static_cast<const typename S::G::Bits*>(scope.step.g), at, offset, [&](int i, auto bits) {
        g[i] = S::Gradient::Body::scale(static_cast<real>(S::G::load(bits)), scope.gradient);
      });
}

template <class S, int I>
KHD auto decode_one(const Scope<S>& scope, int64 e, auto code, const auto& meta) {
  using Component = typename S::template Codec<I>;
  if constexpr (Component::has_aux_state)
    return Component::Body::decode(code, meta, codec_aux_state<S, I, false>(scope, e));
  else
    return Component::Body::decode(code, meta);
}

// Decodes element e of a whole tile.
template <class S, int I>
KHD auto decode_in_whole(const Scope<S>& scope, int64 e, auto code, const auto& meta) {
  using C = typename S::template Codec<I>::Body;
  if constexpr (shares_codebook<S, I>())
    return C::value_of(SharedCodebook<S, I>::here().values.x[code], meta);
  else
    return decode_one<S, I>(scope, e, code, meta);
}

// The block of a lane's vector, counted from the tile's first block.
template <class Shape, int Block>
KHD uint32 block_of_row(int row) {
  const uint32 of_rows = static_cast<uint32>(row * Shape::stride / Block);
  return Block < Shape::stride ? of_rows + Shape::lane() * Shape::vector / Block : of_rows;
}

// Loads the metadata of each row's block. A tile contains whole blocks, or is inside one.
template <class Shape, int Block, class Meta>
KHD void load_metas(const Meta* from, int64 base, Meta* meta) {
  const Meta* first = Shape::in_memory(from) + static_cast<uint64>(base) / Block;
  UNROLL
  for (int row = 0; row < Shape::rows; ++row) meta[row] = first[block_of_row<Shape, Block>(row)];
}

// A lane's codes of slot I in a whole tile, with the metadata of their blocks, before decoding.
template <class S, int I, class Shape, class Component = typename S::template Codec<I>>
class StoredRows {
  using C = typename Component::Body;
  using Storage = CodeStorage<typename C::Code>;

 public:
  KHD StoredRows(const Scope<S>& scope, int64 base) {
    const SlotBuffers& slot = scope.tensor.slots[I];
    if constexpr (C::block > 1)
      load_metas<Shape, C::block>(static_cast<const typename C::Meta*>(slot.meta), base, meta_);
    Storage::template load_rows<Shape>(slot.codes, base,
                                       [&](int i, auto code) { code_[i] = code; });
  }
  KHD void decode(const Scope<S>& scope, const Linear<true>& at, real* prev) const {
    const PreviousValue<S, I> previous(scope);
    UNROLL
    for (int i = 0; i < Shape::fragment; ++i) {
      const int row = i / Shape::vector;
      const int64 e = at.element(Shape::row_start(row) + i % Shape::vector);
      prev[i] = previous(decode_in_whole<S, I>(scope, e, code_[i], meta_[row]));
    }
  }

 private:
  typename Storage::Register code_[Shape::fragment];
  typename C::Meta meta_[Shape::rows]{};
};
template <class S, int I, class Shape>
struct StoredRows<S, I, Shape, Absent> {
  KHD StoredRows(const Scope<S>&, int64) {}
  KHD void decode(const Scope<S>& scope, const Linear<true>&, real* prev) const {
    UNROLL
    for (int i = 0; i < Shape::fragment; ++i) prev[i] = scope.initial.of[I];
  }
};

// A template with the slot number as its parameter, as Each (lang/list.cuh) requires.
template <class S, class Shape>
struct SlotsOfTile {
  template <int I>
  using Stored = StoredRows<S, I, Shape>;
};

// Loads the previous values of slot I, one by one.
template <class S, int I, class Shape, class Cursor>
KHD void load_slot(const Scope<S>& scope, const Cursor& at, real* prev) {
  using Component = typename S::template Codec<I>;
  const PreviousValue<S, I> previous(scope);
  UNROLL
  for (int i = 0; i < Shape::fragment; ++i) {
    const uint32 within = Shape::row_start(i / Shape::vector) + i % Shape::vector;
    real stored = scope.initial.of[I];
    if constexpr (kStored<Component>) {
      using C = typename Component::Body;
      if (at.has(within)) {
        const int64 e = at.element(within);
        const SlotBuffers& slot = scope.tensor.slots[I];
        typename C::Meta meta{};
        if constexpr (C::block > 1)
          meta = static_cast<const typename C::Meta*>(slot.meta)[e / C::block];
        const auto code = CodeStorage<typename C::Code>::load_one(slot.codes, e);
        stored = previous(decode_one<S, I>(scope, e, code, meta));
      }
    }
    prev[i] = stored;
  }
}

// Loads all slots. For a whole tile, all loads are issued before the first code is decoded.
template <class S, class Shape, class Cursor>
KHD void load_slots(const Scope<S>& scope, const Cursor& at, Fragment<S, Shape>& f) {
  if constexpr (Cursor::whole) {
    const Each<S::slots, SlotsOfTile<S, Shape>::template Stored> stored(scope, at.base);
    stored.visit(
        [&](auto i, const auto& slot) { slot.decode(scope, at, f.prev[decltype(i)::value]); });
  } else {
    static_for<S::slots>([&](auto i) {
      load_slot<S, decltype(i)::value, Shape>(scope, at, f.prev[decltype(i)::value]);
    });
  }
}

// Loads the inputs that are given. The others are 0.
template <class S, class Shape, class Cursor>
KHD void load_inputs(const Scope<S>& scope, const Cursor& at, Fragment<S, Shape>& f) {
  UNROLL
  for (int n = 0; n < S::inputs; ++n) {
    UNROLL
    for (int i = 0; i < Shape::fragment; ++i) f.input[n][i] = 0;
    if (scope.step.inputs[n] != nullptr)
      load_values<Shape>(
          static_cast<const real*>(scope.step.inputs[n]), at, [](int64 e) { return e; },
          [&](int i, real x) { f.input[n][i] = x; });
  }
}

// Known: with the results of so many host transforms.
template <class S, class Shape, int Known, class Cursor>
KHD void load_fragment(const Scope<S>& scope, const Cursor& at, Fragment<S, Shape>& f) {
  load_weights<S, Shape>(scope, at, f.p);
  load_gradient<S, Shape>(scope, at, f.g);
  if constexpr (S::inputs > 0) load_inputs<S, Shape>(scope, at, f);
  static_for<Known>([&](auto k) {
    constexpr int K = decltype(k)::value;
    load_values<Shape>(
        static_cast<const real*>(scope.step.transformed[K]), at, [](int64 e) { return e; },
        [&](int i, real x) { f.transformed[K][i] = x; });
  });
  load_slots<S, Shape>(scope, at, f);
}

// Sets the previous values of all slots, from index i of the fragment.
template <class S, class Shape>
KHD void set_slots(const Fragment<S, Shape>& from, int i, ElementOf<S>& e) {
  static_for<S::slots>(
      [&](auto s) { set_slot<S, decltype(s)::value>(e, from.prev[decltype(s)::value][i]); });
}

// Sets the auxiliary state of an element's own entries. Missing elements get zeros.
template <class S>
KHD void set_own_state(const Scope<S>& scope, int64 element, bool exists, ElementOf<S>& e) {
  for_list(typename S::AuxFields{}, [&](auto row) {
    using Field = decltype(row);
    if constexpr (Field::of_elements) {
      auto& value = e.*Field::pointer;
      value.prev = 0;
      if (exists)
        value.prev = Field::prev(scope.tensor, scope.hyper_params)[entry_of(
            scope.tensor, Field::Domain::reduced(scope.tensor.dims), element)];
    }
  });
}

// Replaces the new values of all slots without codes whose auxiliary state is known in this pass.
template <class S, int Pass>
KHD void set_stored_slots(const Scope<S>& scope, int64 element, auto& e) {
  static_for<S::slots>([&](auto s) {
    constexpr int I = decltype(s)::value;
    if constexpr (knows_what_is_stored<S, I, Pass>())
      set_stored<S, I>(e, codec_aux_state<S, I, true>(scope, element));
  });
}

// Calls f(element, gradient context, rule context) for index i of the fragment. Computes new slots if this pass has
// all values that they depend on.
template <class S, int Pass, class Shape, int Known, class Cursor, class F>
KHD void with_element(const Scope<S>& scope, const Cursor& at, const Fragment<S, Shape>& from,
                      int i, uint32 within, F&& f) {
  ElementOf<S> e;
  e.p = from.p[i];
  e.g = from.g[i];
  e.index = scope.tensor.offset + at.element(within);
  e.random_key = random_key(scope, 0);
  set_slots<S>(from, i, e);
  if constexpr (S::inputs > 0)
    set_inputs<S>(GivenInputs<S>(scope.step), e,
                  [&](auto n) { return from.input[decltype(n)::value][i]; });
  if constexpr (elements_read_state<S>())
    set_own_state<S>(scope, at.element(within), at.has(within), e);
  for_known_transforms<S, Known>(
      [&](auto t) { decltype(t)::of(e) = from.transformed[decltype(t)::number][i]; });
  const auto elements = [&](const auto& gradient, const auto& rule) {
    advance<S, Pass, Known>(e, gradient, rule);
    if (at.has(within)) set_stored_slots<S, Pass>(scope, at.element(within), e);
    f(e, gradient, rule);
  };
  if constexpr (has_entry_coefficients<S, Pass>()) {
    auto gradient = scope.gradient;
    auto rule = scope.rule;
    if (at.has(within))
      load_coefficients<S, Pass, false>(scope, at.element(within), gradient, rule);
    elements(gradient, rule);
  } else {
    elements(scope.gradient, scope.rule);
  }
}

// Calls f(index, index in the tile, element, gradient context, rule context) for every index of the fragment.
template <class S, int Pass, class Shape, int Known, class Cursor, class F>
KHD void for_elements(const Scope<S>& scope, const Cursor& at, const Fragment<S, Shape>& from,
                      F&& f) {
  UNROLL
  for (int row = 0; row < Shape::rows; ++row) {
    UNROLL
    for (int k = 0; k < Shape::vector; ++k) {
      const int i = row * Shape::vector + k;
      const uint32 within = Shape::row_start(row) + k;
      with_element<S, Pass, Shape, Known>(scope, at, from, i, within,
                                          [&](auto& e, const auto& gradient, const auto& rule) {
                                            f(i, within, e, gradient, rule);
                                          });
    }
  }
}

}  // namespace jitstep
