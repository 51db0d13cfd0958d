// Locations of a domain's entries in a tensor of more elements than 32 bits can count. Index arithmetic only, without
// memory.
#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "../../templates/kernel/locations.cuh"
#include "jit/base/args.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::support {
namespace {

// A tensor of 2^40 elements whose last two dimensions are transposed in memory.
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
  // The linear index over the dimensions in `which`, in logical order.
  std::int64_t number(uint32 which) const {
    std::int64_t number = 0;
    for (int d = 0; d < 4; ++d)
      if (which >> d & 1u) number = number * kSizes[d] + at[d];
    return number;
  }
};

const std::vector<Place> kPlaces = {{{0, 0, 0, 0}},
                                    {{0, 10226, 0, 123}},  // an element past 2^31
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

std::vector<jit::Domain> all_domains() {
  using Kind = jit::Domain::Kind;
  std::vector<jit::Domain> domains;
  for (const Kind kind : {Kind::tensor, Kind::first, Kind::rows, Kind::columns, Kind::matrices})
    domains.push_back({kind, 0});
  for (int axis = 0; axis < 4; ++axis)
    domains.push_back({Kind::axis, axis});  // a manifest may name any axis
  return domains;
}

// The condition that the manifest requires for reductions over entries (manifest_fields.cpp).
bool is_finer(const jit::Domain& fine, const jit::Domain& coarse) {
  for (int dims = 1; dims <= kMaxDims; ++dims)
    if (fine.reduced(dims) & ~coarse.reduced(dims)) return false;
  return true;
}

// Kernels number the members of one entry consecutively, from entry * members (from_entries in leaf_sums.cuh). So no
// dimension of the coarser domain may follow a dimension that only the finer domain has.
TEST(Domains, EntriesOfAFinerDomainAreConsecutiveInOneEntry) {
  int pairs = 0;
  for (const jit::Domain& coarse : all_domains())
    for (const jit::Domain& fine : all_domains()) {
      if (coarse == fine || !is_finer(fine, coarse)) continue;
      ++pairs;
      for (int dims = 1; dims <= kMaxDims; ++dims) {
        const unsigned between = ~coarse.reduced(dims) & ((1u << dims) - 1);
        const unsigned inside = coarse.reduced(dims) & ~fine.reduced(dims);
        if (inside == 0) continue;
        EXPECT_EQ(between >> std::countr_zero(inside), 0u)
            << to_string(fine) << " in " << to_string(coarse) << ", " << dims << " dimensions";
      }
    }
  EXPECT_GE(pairs, 8);  // the tensor over all other domains
}

}  // namespace
}  // namespace jitstep::support
