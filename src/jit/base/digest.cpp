#include "jit/base/digest.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace jitstep::jit {
namespace {

// Names and numbers of FIPS 180-4, section 6.2.
using Word = std::uint32_t;
using State = std::array<Word, 8>;

constexpr std::size_t kBlock = 64;
constexpr int kRounds = 64;

constexpr State kInitial = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

constexpr Word kConstants[kRounds] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

Word big_endian(const std::byte* at) {
  return std::to_integer<Word>(at[0]) << 24 | std::to_integer<Word>(at[1]) << 16 |
         std::to_integer<Word>(at[2]) << 8 | std::to_integer<Word>(at[3]);
}

void expand(const std::byte* block, Word (&w)[kRounds]) {
  for (int t = 0; t < 16; ++t) w[t] = big_endian(block + 4 * t);
  for (int t = 16; t < kRounds; ++t) {
    const Word a = w[t - 15], b = w[t - 2];
    const Word s0 = std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3);
    const Word s1 = std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10);
    w[t] = s1 + w[t - 7] + s0 + w[t - 16];
  }
}

void add_block(State& state, const std::byte* block) {
  Word w[kRounds];
  expand(block, w);
  auto [a, b, c, d, e, f, g, h] = state;
  for (int t = 0; t < kRounds; ++t) {
    const Word s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const Word t1 = h + s1 + ((e & f) ^ (~e & g)) + kConstants[t] + w[t];
    const Word s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const Word t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1;
    d = c, c = b, b = a, a = t1 + t2;
  }
  const State sum = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += sum[i];
}

// The last one or two blocks: the rest of the message, a bit 1, zeros, and the length of the message in bits.
void add_end(State& state, std::span<const std::byte> rest, std::uint64_t bytes) {
  std::byte end[2 * kBlock] = {};
  std::copy(rest.begin(), rest.end(), end);
  end[rest.size()] = std::byte{0x80};
  const std::size_t size = rest.size() + 9 <= kBlock ? kBlock : 2 * kBlock;
  for (int i = 0; i < 8; ++i) end[size - 1 - i] = static_cast<std::byte>(bytes * 8 >> 8 * i);
  for (std::size_t at = 0; at < size; at += kBlock) add_block(state, end + at);
}

}  // namespace

Digest sha256(std::span<const std::byte> bytes) {
  State state = kInitial;
  const std::size_t whole = bytes.size() / kBlock * kBlock;
  for (std::size_t at = 0; at < whole; at += kBlock) add_block(state, bytes.data() + at);
  add_end(state, bytes.subspan(whole), bytes.size());
  Digest digest;
  for (std::size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<std::byte>(state[i / 4] >> (24 - i % 4 * 8));
  return digest;
}

std::string sha256_hex(std::string_view content) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (std::byte value : sha256(std::as_bytes(std::span(content)))) {
    hex += kDigits[std::to_integer<int>(value) >> 4];
    hex += kDigits[std::to_integer<int>(value) & 15];
  }
  return hex;
}

}  // namespace jitstep::jit
