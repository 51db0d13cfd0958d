// Table lookups for a range of bytes, by every method, whichever this CPU would use.
#include "../../templates/kernel/loop/lookup.cuh"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace jitstep {
namespace {

// Values with bytes that all differ from their neighbors' bytes.
template <int N>
constexpr Table<N> kValues = [] {
  Table<N> table{};
  for (int i = 0; i < N; ++i)
    table.x[i] = __builtin_bit_cast(float, 0x3f9a5c1eu + 0x01030507u * static_cast<uint32>(i));
  return table;
}();

template <int N, int Count, LookUp How>
void expect_each_value() {
  using Found = LookedUp<kValues<N>, Count, How>;
  std::vector<uint8> index(
      Found::room);  // on the heap, so that sanitizers detect reads past the end
  for (std::size_t i = 0; i < Count; ++i) index[i] = static_cast<uint8>((7 * i + 3) % N);
  const Found found(index.data());
  for (int i = 0; i < Count; ++i)
    ASSERT_EQ(bits_of(found[i]), bits_of(kValues<N>.x[(7 * i + 3) % N])) << N << " " << i;
}

template <int N, LookUp How>
void expect_every_count() {
  expect_each_value<N, 256, How>();
  expect_each_value<N, 32, How>();
  expect_each_value<N, 65, How>();
}

TEST(LookedUp, GivesTheTablesValueAtEveryIndex) {
  expect_every_count<16, LookUp::each>();
  expect_every_count<256, LookUp::each>();
}

TEST(LookedUp, ByBytesGivesTheTablesValue) {
  expect_every_count<16, LookUp::bytes>();
  expect_every_count<64, LookUp::bytes>();
  expect_every_count<128, LookUp::bytes>();
  expect_every_count<256, LookUp::bytes>();
}

}  // namespace
}  // namespace jitstep
