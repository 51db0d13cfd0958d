// Philox4x32-7 (Salmon et al., SC 2011): random bits that depend only on the seed, the tensor, the step,
// the stream and the element.
#pragma once
#include "port.cuh"

namespace jitstep {

struct RandomKey {
  uint64 seed;
  uint32 tensor;
  uint32 t;
  uint32 stream;  // 0: weights, 1..: slots in order
};

inline constexpr int kPhiloxRounds = 7;
inline constexpr uint32 kPhiloxFactor0 = 0xD2511F53u, kPhiloxFactor1 = 0xCD9E8D57u;
inline constexpr uint32 kPhiloxStep0 = 0x9E3779B9u, kPhiloxStep1 = 0xBB67AE85u;

struct RandomWords {
  uint32 word[4];
  // 16 bits for element `field` of the eight that share a counter.
  KHD uint32 field(int i) const {
    const uint32 low = i & 4 ? word[2] : word[0];
    const uint32 high = i & 4 ? word[3] : word[1];
    return ((i & 2 ? high : low) >> (16 * (i & 1))) & 0xffffu;
  }
};

// The words of elements 8 * octet to 8 * octet + 7.
KHD RandomWords philox(const RandomKey& key, uint64 octet) {
  uint32 k0 = static_cast<uint32>(key.seed), k1 = static_cast<uint32>(key.seed >> 32);
  uint32 c0 = static_cast<uint32>(octet), c1 = key.tensor, c2 = key.t;
  uint32 c3 = key.stream << 24 | static_cast<uint32>(octet >> 32);
  UNROLL
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64 a = static_cast<uint64>(kPhiloxFactor0) * c0;
    const uint64 b = static_cast<uint64>(kPhiloxFactor1) * c2;
    c0 = static_cast<uint32>(b >> 32) ^ c1 ^ k0;
    c2 = static_cast<uint32>(a >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32>(b);
    c3 = static_cast<uint32>(a);
    k0 += kPhiloxStep0;
    k1 += kPhiloxStep1;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace jitstep
