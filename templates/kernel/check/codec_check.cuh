// Checks at compile time that a codec has the functions of docs/extending/reference.md.
#pragma once
#include "../measure.cuh"
#include "../tile/fragment.cuh"

namespace jitstep {

template <class P>
using CodeOf = typename CodeStorage<typename P::Body::Code>::Register;
template <class P>
using MetaOf = typename P::Body::Meta;

// Loops use values and codes without conversion. An implicit conversion of a double or float would change the number.
template <class T>
inline constexpr bool kValue = kSame<T, real> || kSame<T, float>;
template <class T, class Code>
inline constexpr bool kCode = kSame<Code, real> ? kValue<T> : !kSame<T, float> && !kSame<T, double>;
template <bool>
struct Flag {};

template <class P>
concept SaysRandom = requires {
  Flag<P::Body::random>{};
};
template <class P>
concept HasDecode = requires(CodeOf<P> code, const MetaOf<P>& meta) {
  requires(!P::has_aux_state);
  requires kValue<decltype(P::Body::decode(code, meta))>;
}
|| requires(CodeOf<P> code, const MetaOf<P>& meta, const typename P::AuxState& m) {
  requires P::has_aux_state;
  requires kValue<decltype(P::Body::decode(code, meta, m))>;
};
template <class P>
concept HasEncode =
    !kCoded<P> || requires(real x, const Measured<typename P::Body>& meta, uint32 bits) {
  requires(!P::has_aux_state);
  static_cast<CodeOf<P>>(P::Body::encode(x, meta, bits));
  requires kCode<decltype(P::Body::encode(x, meta, bits)), CodeOf<P>>;
}
|| requires(real x, const Measured<typename P::Body>& meta, uint32 bits,
            const typename P::AuxState& m) {
  requires P::has_aux_state;
  static_cast<CodeOf<P>>(P::Body::encode(x, meta, bits, m));
  requires kCode<decltype(P::Body::encode(x, meta, bits, m)), CodeOf<P>>;
};
template <class P>
concept TakesKeys = MeasuresFromAuxState<P> || requires(const uint32 (&key)[P::Body::keys]) {
  P::Body::measure(key);
};
template <class P>
concept HasMeasure = P::Body::block == 1 ||
                     requires(real x, const Measured<typename P::Body>* measured,
                              const MetaOf<P>* meta) {
  requires kSame<decltype(P::Body::key(x, 0)), uint32>;
  requires TakesKeys<P>;
  meta = measured;  // Meta, or derived from it
};

}  // namespace jitstep
