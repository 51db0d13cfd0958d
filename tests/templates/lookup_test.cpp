// Tables that a run of bytes is looked up in: both ways, whatever this machine would choose.
#include "../../templates/core/lookup.cuh"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace jitstep {
namespace {

// Values whose bytes all differ from their neighbours'.
template <int N>
constexpr Table<N> kValues = [] {
  Table<N> table{};
  for (int i = 0; i < N; ++i)
    table.x[i] = __builtin_bit_cast(float, 0x3f9a5c1eu + 0x01030507u * static_cast<uint32>(i));
  return table;
}();

// What lies behind the last index may not be read: valgrind and the sanitizers see the heap.
template <int N, int Most, bool Permute>
void expect_each_value(int count) {
  std::vector<uint8> index(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    index[static_cast<std::size_t>(i)] = static_cast<uint8>((7 * i + 3) % N);
  const LookedUp<kValues<N>, Most, Permute> found(index.data(), count);
  for (int i = 0; i < count; ++i)
    ASSERT_EQ(bits_of(found[i]), bits_of(kValues<N>.x[(7 * i + 3) % N])) << N << " " << i;
}

template <int N>
void expect_every_run() {
  for (int count : {0, 1, 15, 16, 17, 63, 64, 65, 127, 128}) {
    expect_each_value<N, 128, false>(count);
    expect_each_value<N, 128, true>(count);
  }
  for (int count : {31, 32}) expect_each_value<N, 32, true>(count);
  expect_each_value<N, 256, true>(256);
}

TEST(LookedUp, IsTheTablesValueForEveryIndexAndRun) {
  expect_every_run<16>();
  expect_every_run<64>();
  expect_every_run<128>();
  expect_every_run<256>();
}

}  // namespace
}  // namespace jitstep
