// Division by a number that is known before: the bits of a division.
#include "../../templates/core/divisor.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace jitstep {
namespace {

// Of mantissas so far apart, and of the numbers that are given.
void expect_quotients_by(float by, const std::vector<float>& numbers, std::uint32_t apart) {
  const Divisor divisor = jitstep::divisor(double{by});
  for (std::uint32_t bits = 0; bits < 2u << 23; bits += apart) {
    const float a = float_of(0x3f800000u + bits);
    ASSERT_EQ(bits_of(a / divisor), bits_of(a / by)) << a << " / " << by;
  }
  for (const float a : numbers)
    if (std::isnan(a / by))
      EXPECT_TRUE(std::isnan(a / divisor)) << a << " / " << by;
    else
      EXPECT_EQ(bits_of(a / divisor), bits_of(a / by)) << a << " / " << by;
}

// Square roots of all that a second moment can be, subnormal numbers included.
std::vector<float> roots() {
  std::vector<float> all = {0.0f, INFINITY, NAN, std::sqrt(0x1p-149f), std::sqrt(3.4e38f)};
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) all.push_back(std::sqrt(float_of(random() % 0x7f800000u)));
  return all;
}

TEST(Divisor, GivesEveryQuotientOfABiasCorrection) {
  for (const double beta : {0.9, 0.95, 0.99, 0.999, 0.9999})
    for (const int t : {1, 2, 3, 10, 100, 1000})
      expect_quotients_by(static_cast<float>(std::sqrt(1 - std::pow(beta, t))), roots(), 61);
}

TEST(Divisor, GivesEveryQuotientWhateverTheMantissas) {
  std::mt19937 random(2);
  for (int i = 0; i < 100; ++i)
    expect_quotients_by(float_of(0x3f000000u + random() % 0x800000u), {}, 127);
  for (const std::uint32_t bits : {0x3f800000u, 0x3f7fffffu, 0x3f000001u, 0x3f000000u})
    expect_quotients_by(float_of(bits), roots(), 1);
}

TEST(Divisor, OfNoughtGivesWhatADivisionGives) { expect_quotients_by(0.0f, roots(), 4099); }

}  // namespace
}  // namespace jitstep
