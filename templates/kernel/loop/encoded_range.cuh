// Decodes and encodes a range of a slot in loops that the compiler vectorizes. Block metadata is read before these
// loops, and written after them. No loop has a remainder. A range is a leaf, or the rest of the tensor.
#pragma once
#include "../measure.cuh"
#include "lookup.cuh"
#include "strip.cuh"

namespace jitstep {

// Whether thresholds determine the code of a value.
template <class C>
concept FindsInCodebook = HasCodebook<C> && !C::random;

// Whether a codec has tables of logarithms: `logarithms` by code and `thresholds` by candidate.
template <class C>
concept HasLogarithms = requires {
  C::logarithms;
};

// Whether a codec applies an inner codec to normalized values.
template <class C>
concept HasNormalize = requires {
  typename C::ScaledCodec;
};
template <class C>
concept NormalizesByBlock = HasNormalize<C> &&(C::block > 1);

// ---- from codes to values ------------------------------------------------------------------------

// The codes of a range, one per array element. It always has kLeaf readable codes.
template <class Code>
class CodesOfRange {
 public:
  KHD CodesOfRange(const void* codes, int64 base, int count)
      : codes_(static_cast<const Code*>(codes) + base) {
    if (count == kLeaf) return;
    for (int i = 0; i < kLeaf; ++i) component_[i] = i < count ? codes_[i] : Code{};
    codes_ = component_;
  }
  KHD const Code* begin() const { return codes_; }

 private:
  const Code* codes_;
  Code component_[kLeaf];
};
template <>
class CodesOfRange<Nibble> {
 public:
  KHD CodesOfRange(const void* codes, int64 base, int count) {
    const auto* bytes = static_cast<const uint8*>(codes) + base / 2;
    INDEPENDENT
    for (int j = 0; j < (count + 1) / 2; ++j) {
      codes_[2 * j] = bytes[j] & 15;
      codes_[2 * j + 1] = bytes[j] >> 4;
    }
  }
  KHD const uint8* begin() const { return codes_; }

 private:
  uint8 codes_[kLeaf] = {};
};

// The codes of a range. If they index a codebook, it looks up all values at once.
template <class C>
class EncodedRange {
 public:
  KHD EncodedRange(const void* codes, int64 base, int count) : codes_(codes, base, count) {}
  KHD real value(int i, const typename C::Meta& meta) const {
    return C::decode(codes_.begin()[i], meta);
  }

 private:
  CodesOfRange<typename C::Code> codes_;
};
template <HasCodebook C>
class EncodedRange<C> {
 public:
  KHD EncodedRange(const void* codes, int64 base, int count)
      : codes_(codes, base, count), values_(codes_.begin()) {}
  KHD real value(int i, const typename C::Meta& meta) const {
    return C::value_of(values_[i], meta);
  }

 private:
  CodesOfRange<typename C::Code> codes_;
  LookedUp<C::Codebook::values, kLeaf> values_;
};

template <HasLogarithms C>
class EncodedRange<C> {
 public:
  KHD EncodedRange(const void* codes, int64 base, int count)
      : codes_(codes, base, count), logarithms_(codes_.begin()) {}
  KHD real value(int i, const typename C::Meta& meta) const {
    return C::value_of(logarithms_[i], meta);
  }

 private:
  CodesOfRange<typename C::Code> codes_;
  LookedUp<C::logarithms, kLeaf> logarithms_;
};

// The values of a range. It decodes codes one by one, with one shared Meta, or block by block.
template <class C>
class DecodedRange {
 public:
  KHD DecodedRange(const SlotBuffers& slot, int64 base, int)
      : codes_(static_cast<const typename C::Code*>(slot.codes) + base) {}
  KHD real operator[](int i) const { return C::decode(codes_[i], {}); }

 private:
  const typename C::Code* codes_;
};
template <class C>
requires(rounds_to_nearest<C>()) class DecodedRange<C> {
 public:
  KHD DecodedRange(const SlotBuffers& slot, int64 base, int count)
      : values_(slot.codes, base, count) {}
  KHD real operator[](int i) const { return values_[i]; }

 private:
  WidenedRange<typename C::Rounded> values_;
};
template <class C>
requires(C::block >= kLeaf) class DecodedRange<C> {
 public:
  KHD DecodedRange(const SlotBuffers& slot, int64 base, int count)
      : coded_(slot.codes, base, count),
        meta_(static_cast<const typename C::Meta*>(slot.meta)[base / C::block]) {}
  KHD real operator[](int i) const { return coded_.value(i, meta_); }

 private:
  EncodedRange<C> coded_;
  typename C::Meta meta_;
};
template <class C>
requires(C::block < kLeaf &&
         (C::block > 1 || kSame<typename C::Code, Nibble>)) class DecodedRange<C> {
  static constexpr int kBlock = C::block > 1 ? C::block : kLeaf;

 public:
  KHD DecodedRange(const SlotBuffers& slot, int64 base, int count) {
    const EncodedRange<C> coded(slot.codes, base, count);
    for (int start = 0; start < count; start += kBlock) {
      typename C::Meta meta{};
      if constexpr (C::block > 1)
        meta = static_cast<const typename C::Meta*>(slot.meta)[(base + start) / kBlock];
      // vectorized: the loop that decodes
      INDEPENDENT
      for (int i = start; i < start + kBlock; ++i) values_[i] = coded.value(i, meta);
    }
  }
  KHD real operator[](int i) const { return values_[i]; }

 private:
  real values_[kLeaf];
};

// ---- from values to codes ------------------------------------------------------------------------

// Measures the one block that Count values are in. aux(): the codec's auxiliary state from this step.
template <class Component, int Count>
KHD auto measure(const real* x, auto&& aux) {
  using Codec = typename Component::Body;
  uint32 key[Codec::keys];
  for (int n = 0; n < Codec::keys; ++n) {
    uint32 most = 0;
    // vectorized: the loop that finds a block's key
    for (int i = 0; i < Count; ++i) most = max(most, Codec::key(x[i], n));
    key[n] = most;
  }
  return measure_block<Component>(key, aux);
}

// The codes of Count values that share a Meta.
template <class C, int Count>
class NewlyEncodedRange {
 public:
  KHD NewlyEncodedRange(const real* x, const Measured<C>& meta) : x_(x), meta_(meta) {}
  KHD auto code(int i, uint32 random_bits) const { return C::encode(x_[i], meta_, random_bits); }

 private:
  const real* x_;
  Measured<C> meta_;
};
template <FindsInCodebook C, int Count>
class NewlyEncodedRange<C, Count> {
 public:
  KHD NewlyEncodedRange(const real* x, const Measured<C>& meta)
      : x_(x), meta_(meta), candidates_(x, meta), thresholds_(candidates_.x) {}
  KHD auto code(int i, uint32) const {
    return C::code_of(x_[i], meta_, candidates_.x[i], thresholds_[i]);
  }

 private:
  using Thresholds = LookedUp<C::Codebook::thresholds, Count>;
  struct Candidates {
    uint8 x[Thresholds::room] = {};
    KHD Candidates(const real* from, const Measured<C>& meta) {
      // vectorized: the loop that finds candidates
      INDEPENDENT
      for (int i = 0; i < Count; ++i) x[i] = static_cast<uint8>(C::candidate(from[i], meta));
    }
  };

  const real* x_;
  Measured<C> meta_;
  Candidates candidates_;
  Thresholds thresholds_;
};

template <HasLogarithms C, int Count>
requires(!C::random) class NewlyEncodedRange<C, Count> {
 public:
  KHD NewlyEncodedRange(const real* x, const Measured<C>& meta)
      : x_(x), of_(x, meta), thresholds_(of_.candidates) {}
  KHD auto code(int i, uint32) const {
    return C::code_of(x_[i], of_.logarithms[i], of_.candidates[i], thresholds_[i]);
  }

 private:
  using Thresholds = LookedUp<C::thresholds, Count>;
  struct Magnitudes {
    float logarithms[Count];
    uint8 candidates[Thresholds::room] = {};
    KHD Magnitudes(const real* from, const Measured<C>& meta) {
      // vectorized: the loop that computes logarithms
      INDEPENDENT
      for (int i = 0; i < Count; ++i) {
        logarithms[i] = C::logarithm_of(from[i], meta);
        candidates[i] = static_cast<uint8>(C::candidate(logarithms[i]));
      }
    }
  };

  const real* x_;
  Magnitudes of_;
  Thresholds thresholds_;
};

// Stores the first count of Count codes.
template <class Code>
struct StoredCodes {
  template <int Count>
  KHD static void store(const Code (&code)[Count], void* codes, int64 base, int count) {
    auto* to = static_cast<Code*>(codes) + base;
    for (int i = 0; i < count; ++i) to[i] = code[i];
  }
};
template <>
struct StoredCodes<Nibble> {
  template <int Count>
  KHD static void store(uint8 (&code)[Count], void* codes, int64 base, int count) {
    if (count % 2 == 1) code[count] = 0;
    auto* to = static_cast<uint8*>(codes) + base / 2;
    INDEPENDENT
    for (int j = 0; j < (count + 1) / 2; ++j)
      to[j] = static_cast<uint8>(code[2 * j] | code[2 * j + 1] << 4);
  }
};

}  // namespace jitstep
