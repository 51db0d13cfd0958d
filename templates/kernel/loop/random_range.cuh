// Random bits for each element of a range.
#pragma once
#include "../../lang/philox.cuh"

namespace jitstep {

// philox() of kProducts consecutive octets. Each lane has one word of one octet in its lower half.
struct PhiloxLanes {
  Products word[4];

  KHD PhiloxLanes(const RandomKey& key, uint64 octet) {
    Products octets{};
    for (int lane = 0; lane < kProducts; ++lane) octets[lane] = static_cast<uint64>(lane);
    octets += octet;
    word[0] = octets;
    word[1] = Products{} + key.tensor;
    word[2] = Products{} + key.t;
    word[3] = octets >> 32 | static_cast<uint64>(key.stream) << 24;
    uint32 k0 = static_cast<uint32>(key.seed), k1 = static_cast<uint32>(key.seed >> 32);
    UNROLL
    for (int round = 0; round < kPhiloxRounds; ++round) {
      Products a, b;
      multiply_lower_halves(word[0], kPhiloxFactor0, a);
      multiply_lower_halves(word[2], kPhiloxFactor1, b);
      word[0] = b >> 32 ^ word[1] ^ k0;
      word[2] = a >> 32 ^ word[3] ^ k1;
      word[1] = b;
      word[3] = a;
      k0 += kPhiloxStep0;
      k1 += kPhiloxStep1;
    }
  }
  // Words 2 * half and 2 * half + 1 of each octet, side by side.
  KHD Products pair(int half) const {
    return (word[2 * half] & 0xffffffffu) | word[2 * half + 1] << 32;
  }
};

template <int N>
struct RandomRange {
  static_assert(kLittleEndian, "the lower field of a word lies first");
  static constexpr int kStored = (N + 8 * kProducts - 1) / (8 * kProducts) * (8 * kProducts);

  alignas(64) uint16 bits[kStored];
  // By value, because it may alias `bits`.
  KHD RandomRange(RandomKey key, int64 first) {
    const uint64 octet = static_cast<uint64>(first) / 8;
    for (int done = 0; done < kStored / 8; done += kProducts) {
      const PhiloxLanes lanes(key, octet + done);
      Products words[2];
      interleave(lanes.pair(0), lanes.pair(1), words);
      copy_bytes(bits + 8 * done, words, sizeof words);
    }
  }
  KHD uint32 operator[](int i) const { return bits[i]; }
  KHD const uint16* from(int i) const { return bits + i; }
};
template <>
struct RandomRange<0> {
  KHD RandomRange(const RandomKey&, int64) {}
  KHD uint32 operator[](int) const { return 0; }
  KHD const uint16* from(int) const { return nullptr; }
};

}  // namespace jitstep
