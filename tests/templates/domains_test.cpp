// Where the entries of a domain lie in a tensor of more elements than 32 bits count: index arithmetic
// alone, no memory.
#include <gtest/gtest.h>

#include <vector>

#include "../../templates/core/team.cuh"

namespace jitstep::support {
namespace {

// A tensor of 2^40 elements whose last two dimensions are exchanged in memory.
constexpr std::int64_t kSizes[] = {5, 1 << 20, 3, 70000};
constexpr std::int64_t kStrides[] = {std::int64_t{1 << 20} * 3 * 70000, 3 * 70000, 1, 3};

TensorRecord record() {
  TensorRecord tensor{};
  tensor.dims = 4;
  for (int d = 0; d < 4; ++d) tensor.dim[d] = {kSizes[d], kStrides[d], 2 * kStrides[d], 0};
  return tensor;
}

struct Place {
  std::int64_t at[4];
  std::int64_t element() const {
    std::int64_t sum = 0;
    for (int d = 0; d < 4; ++d) sum += at[d] * kStrides[d];
    return sum;
  }
  // The number among all indices of the dimensions in `which`, in logical order.
  std::int64_t number(uint32 which) const {
    std::int64_t number = 0;
    for (int d = 0; d < 4; ++d)
      if (which >> d & 1u) number = number * kSizes[d] + at[d];
    return number;
  }
};

const std::vector<Place> kPlaces = {{{0, 0, 0, 0}},
                                    {{0, 10226, 0, 123}},  // element 2^31 and some
                                    {{0, 30677, 2, 69999}},
                                    {{4, (1 << 20) - 1, 2, 69999}},
                                    {{3, 77, 1, 31234}}};

TEST(Domains, FindElementsAndEntriesBeyond32Bits) {
  const TensorRecord tensor = record();
  for (const Place& place : kPlaces)
    for (uint32 reduced = 0; reduced < 16; ++reduced) {
      const std::int64_t entry = place.number(~reduced & 15u), position = place.number(reduced);
      ASSERT_EQ(element_of(tensor, reduced, entry, position), place.element()) << reduced;
      ASSERT_EQ(entry_of(tensor, reduced, place.element()), entry) << reduced;
    }
}

TEST(Domains, FindTheEntriesOfFinerOnesBeyond32Bits) {
  const TensorRecord tensor = record();
  for (const Place& place : kPlaces)
    for (uint32 reduced = 0; reduced < 16; ++reduced)
      for (uint32 finer = 0; finer < 16; ++finer) {
        if (finer & ~reduced) continue;
        const std::int64_t entry = place.number(~reduced & 15u);
        const std::int64_t position = place.number(reduced & ~finer);
        ASSERT_EQ(finer_entry(tensor, reduced, finer, entry, position), place.number(~finer & 15u));
      }
}

TEST(Domains, FindElementsInMemoryBeyond32Bits) {
  for (const Place& place : kPlaces)
    EXPECT_EQ(offset_of(record(), &Dim::p_stride, place.element()), 2 * place.element());
}

}  // namespace
}  // namespace jitstep::support
