// exp, log, atan2 and the like against libm in long double, on targets where it is wider than double.
#include "../../templates/lang/elementary.cuh"
#include "../../templates/lang/contract.cuh"
#include "../../templates/lang/element_functions.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace jitstep::support {
namespace {

using Wide = long double;
using Numbers = std::vector<double>;

constexpr double kLargest = std::numeric_limits<double>::max();
constexpr double kSmallest = std::numeric_limits<double>::denorm_min();

struct Function {
  const char* name;
  double (*ours)(double);
  Wide (*exact)(Wide);
  double bound;       // maximum error in ulp
  double begin, end;  // range with finite results that are not all zero
};

const Function kExp = {"exp", [](double x) { return exp(x); }, std::exp, 0.53, -745.2, 709.78};
const Function kExp2 = {"exp2", [](double x) { return exp2(x); }, std::exp2, 0.53, -1075, 1023.99};
const Function kLog = {"log", [](double x) { return log(x); }, std::log, 0.501, 0, kLargest};
const Function kLog2 = {"log2", [](double x) { return log2(x); }, std::log2, 0.501, 0, kLargest};
const Function kCbrt = {"cbrt",  [](double x) { return cbrt(x); }, std::cbrt, 0.501, -kLargest,
                        kLargest};
const Function kTanh = {"tanh", [](double x) { return tanh(x); }, std::tanh, 3, -21, 21};
const std::vector<Function> kFunctions = {kExp, kExp2, kLog, kLog2, kCbrt, kTanh};

class Elementary : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::numeric_limits<Wide>::digits < 64)
      GTEST_SKIP() << "long double is not wider than double";
  }

  double uniform(double begin, double end) {
    return std::uniform_real_distribution<double>(begin, end)(random_);
  }

  // An argument of the function: half of them uniform in its domain, the others of any magnitude.
  double argument(const Function& f) {
    if (random_() % 2 == 0) return f.end == kLargest ? uniform(0, 4) : uniform(f.begin, f.end);
    for (;;) {
      const double x = double_of(random_());
      if (x >= f.begin && x <= f.end) return x;
    }
  }

  std::mt19937_64 random_{7};
};

// The distance of x from the exact value, in ulp of a double of that size.
double error(double x, Wide exact) {
  const int exponent = exact == 0 ? -1074 : std::max(std::ilogb(exact) - 52, -1074);
  return static_cast<double>(std::abs(std::ldexp(x - exact, -exponent)));
}

bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

// Like `same`, but allows a difference of one ulp for finite values other than zero.
bool alike(double a, double b) {
  return same(a, b) || (a != 0 && std::isfinite(a) && a * b > 0 && std::abs(a / b - 1) < 1e-15) ||
         (a != 0 && b != 0 && std::abs(a - b) <= kSmallest);
}

TEST_F(Elementary, FunctionsOfOneNumberAreExactToLittleMoreThanHalfAnUlp) {
  for (const Function& f : kFunctions)
    for (int i = 0; i < 20000; ++i) {
      const double x = argument(f);
      ASSERT_LE(error(f.ours(x), f.exact(x)), f.bound) << f.name << "(" << x << ")";
    }
}

TEST_F(Elementary, SubnormalExponentialsAreRoundedOnce) {
  for (int i = 0; i < 20000; ++i) {
    const double x = uniform(-745.2, -708), y = uniform(-1075, -1021);
    ASSERT_LE(error(exp(x), std::exp(Wide(x))), kExp.bound) << x;
    ASSERT_LE(error(exp2(y), std::exp2(Wide(y))), kExp2.bound) << y;
  }
}

TEST_F(Elementary, LogarithmsNearOneAreAsExactAsElsewhere) {
  for (int i = 0; i < 20000; ++i) {
    const double x = 1 + std::ldexp(uniform(-1, 1), -static_cast<int>(random_() % 53));
    if (x == 0) continue;
    ASSERT_LE(error(log(x), std::log(Wide(x))), kLog.bound) << x;
    ASSERT_LE(error(log2(x), std::log2(Wide(x))), kLog2.bound) << x;
  }
}

TEST_F(Elementary, PowersAreExactToLittleMoreThanHalfAnUlp) {
  for (int i = 0; i < 60000; ++i) {
    const double x = i % 3 == 0   ? argument(kLog)
                     : i % 3 == 1 ? uniform(0.5, 2)
                                  : 1 + uniform(-1e-6, 1e-6);
    const double limit = 1075 / std::abs(std::log2(x)), y = uniform(-limit, limit);
    const Wide exact = std::pow(Wide(x), Wide(y));
    if (exact > kLargest || std::isnan(y)) continue;
    ASSERT_LE(error(pow(x, y), exact), 0.53) << x << "^" << y;
  }
}

TEST_F(Elementary, AnglesAreExactToTwoUlp) {
  for (int i = 0; i < 60000; ++i) {
    const bool near = i % 2 == 0;
    const double x = near ? uniform(-1, 1) : double_of(random_());
    const double y = near ? uniform(-1, 1) : double_of(random_());
    if (std::isnan(x) || std::isnan(y)) continue;
    ASSERT_LE(error(atan2(y, x), std::atan2(Wide(y), Wide(x))), 2) << y << ", " << x;
  }
}

TEST(ElementarySpecialCases, EqualThoseOfC) {
  const Numbers specials = {0,          1,      2,          3,       0.5,    2.5,      10,
                            kInfinity,  kNaN,   kSmallest,  1e-308,  1e308,  kLargest, 0x1p52 + 1,
                            0x1p53 - 1, 0x1p53, 0x1p53 + 2, 0x1p-53, 1e-320, 709.8,    745.2,
                            1024,       1074,   1075,       1 / 3.0, 3e18,   0x1p63,   0x1p64};
  Numbers all = specials;
  for (double x : specials) all.push_back(-x);
  for (double x : all) {
    EXPECT_PRED2(alike, exp(x), std::exp(x)) << x;
    EXPECT_PRED2(alike, exp2(x), std::exp2(x)) << x;
    EXPECT_PRED2(alike, log(x), std::log(x)) << x;
    EXPECT_PRED2(alike, log2(x), std::log2(x)) << x;
    EXPECT_PRED2(alike, cbrt(x), std::cbrt(x)) << x;
    const float narrow = static_cast<float>(x);
    EXPECT_PRED2(alike, cbrt(narrow), static_cast<float>(std::cbrt(double(narrow)))) << x;
    EXPECT_PRED2(alike, tanh(x), std::tanh(x)) << x;
    for (double y : all) {
      EXPECT_PRED2(alike, pow(x, y), std::pow(x, y)) << x << "^" << y;
      EXPECT_PRED2(alike, atan2(y, x), std::atan2(y, x)) << y << ", " << x;
    }
  }
}

TEST(ElementaryExactResults, AreExact) {
  for (int n = -1074; n < 1024; ++n) {
    const double power = std::ldexp(1.0, n);
    ASSERT_EQ(exp2(n), power) << n;
    ASSERT_EQ(pow(2, n), power) << n;
    ASSERT_EQ(log2(power), n);
  }
  for (int base = 2; base < 100; ++base) {
    double exact = 1;
    for (int n = 0; exact < 0x1p53; ++n, exact *= base) {
      ASSERT_EQ(pow(base, n), exact) << base << "^" << n;
      ASSERT_EQ(pow(-base, n), n % 2 == 0 ? exact : -exact) << base << "^" << n;
    }
  }
  for (int n = -1000; n <= 1000; ++n) {
    ASSERT_EQ(cbrt(double(n) * n * n), n);
    ASSERT_EQ(pow(double(n) * n, 0.5), std::abs(n));
  }
  for (float n = -256; n <= 256; ++n) ASSERT_EQ(cbrt(n * n * n), n);
  EXPECT_EQ(exp(0), 1);
  EXPECT_EQ(log(1), 0);
}

// The last arguments before overflow and underflow.
TEST(ElementaryLimits, OverflowAndUnderflowAtTheRightArguments) {
  EXPECT_LT(exp(0x1.62e42fefa39efp+9), kInfinity);
  EXPECT_EQ(exp(0x1.62e42fefa39f0p+9), kInfinity);
  EXPECT_EQ(exp(-0x1.74910d52d3051p+9), kSmallest);
  EXPECT_EQ(exp(-0x1.74910d52d3052p+9), 0);
  EXPECT_LT(exp2(std::nextafter(1024.0, 0.0)), kInfinity);
  EXPECT_EQ(exp2(1024), kInfinity);
  EXPECT_EQ(exp2(std::nextafter(-1075.0, 0.0)), kSmallest);
  EXPECT_EQ(exp2(-1075), 0);
  EXPECT_EQ(pow(kLargest, 1), kLargest);
  EXPECT_EQ(pow(kSmallest, 1), kSmallest);
  EXPECT_EQ(pow(kSmallest, -1), kInfinity);
}

// Points where the argument reduction or the result changes its branch.
TEST(ElementaryMonotony, HoldsAcrossEveryThreshold) {
  const double ln2 = std::log(2.0);
  Numbers exponents = {0, 1024 * ln2, -1021 * ln2, -1022 * ln2, -1074 * ln2, -1075 * ln2};
  for (int n = -1076; n < 1024; n += 7) exponents.push_back((n + 0.5) * ln2);
  Numbers positive = {std::sqrt(0.5), 1, std::sqrt(2.0), 8, 0x1p-1022, 0x1p-1021, 1e300};
  const auto rises = [](const Function& f, double about, double scale) {
    double x = about * scale;
    for (int i = 0; i < 40; ++i) x = std::nextafter(x, -kInfinity);
    for (int i = 0; i < 80; ++i) {
      const double next = std::nextafter(x, kInfinity);
      if (f.ours(x) > f.ours(next)) return testing::AssertionFailure() << f.name << " at " << x;
      x = next;
    }
    return testing::AssertionSuccess();
  };
  for (double x : exponents) {
    EXPECT_TRUE(rises(kExp, x, 1));
    EXPECT_TRUE(rises(kExp2, x, 1 / ln2));
  }
  for (double x : positive)
    for (const Function* f : {&kLog, &kLog2, &kCbrt}) EXPECT_TRUE(rises(*f, x, 1));
}

TEST(CubeRootOfFloats, IsTheNearestFloat) {
  for (uint32 bits = 1; bits < 0x7f800000u; bits += 997) {
    const float x = float_of(bits), root = cbrt(x);
    const double exact = std::cbrt(double(x));
    ASSERT_LE(std::abs(std::ldexp(root - exact, 23 - std::ilogb(exact))), 0.501) << x;
    ASSERT_EQ(cbrt(-x), -root) << x;
  }
}

// The distance of x from the exact value, in ulp of a float of that size.
double error_of_float(float x, double exact) {
  const int exponent = exact == 0 ? -149 : std::max(std::ilogb(exact) - 23, -149);
  return std::abs(std::ldexp(x - exact, -exponent));
}

TEST(FunctionsOfFloats, AreExactToAFewUlp) {
  std::mt19937_64 random(3);
  for (uint32 bits = 0; bits < 0x7f800000u; bits += 1997) {
    const float x = float_of(bits), sign = random() % 2 == 0 ? 1.0f : -1.0f;
    ASSERT_LE(error_of_float(tanh(sign * x), std::tanh(double(sign * x))), 3) << x;
    // two of three pairs are of about the same magnitude
    const float other = random() % 3 == 0 ? float_of(static_cast<uint32>(random()))
                                          : x * static_cast<float>(random() % 4096) / 512;
    const double exact = std::atan2(double(sign * x), double(other));
    if (std::isnan(other)) continue;
    ASSERT_LE(error_of_float(atan2(sign * x, other), exact), 2) << sign * x << ", " << other;
  }
}

TEST(FunctionsOfFloats, HaveTheSpecialCasesOfC) {
  constexpr float kMost = std::numeric_limits<float>::max();
  for (float x : {0.0f, 1.0f, 3.0f, 1e-45f, 1e-38f, 3e38f, kMost, float(kInfinity), float(kNaN)})
    for (float y : {0.0f, 1.0f, 3.0f, 1e-45f, 1e-38f, 3e38f, kMost, float(kInfinity), float(kNaN)})
      for (float signed_x : {x, -x})
        for (float signed_y : {y, -y}) {
          const float exact = std::atan2(signed_y, signed_x), ours = atan2(signed_y, signed_x);
          EXPECT_EQ(std::isnan(ours), std::isnan(exact));
          if (std::isnan(exact)) continue;
          EXPECT_LE(error_of_float(ours, exact), 3) << signed_y << ", " << signed_x;
          EXPECT_EQ(std::signbit(ours), std::signbit(exact)) << signed_y << ", " << signed_x;
        }
  EXPECT_EQ(tanh(float(kInfinity)), 1);
  EXPECT_EQ(tanh(-float(kInfinity)), -1);
  EXPECT_TRUE(std::isnan(tanh(float(kNaN))));
  EXPECT_TRUE(std::signbit(tanh(-0.0f)));
  EXPECT_EQ(tanh(1e-45f), 1e-45f);
}

TEST(NumbersOfARule, AreNanOutsideTheList) {
  const jitstep::Numbers<2> numbers = {{0.5, 0.25}};
  const Totals<2> totals = {{0.5, 0.25}};
  for (const int outside : {-1, 2, 1 << 30, std::numeric_limits<int>::min()}) {
    EXPECT_TRUE(std::isnan(numbers[outside])) << outside;
    EXPECT_TRUE(std::isnan(totals[outside])) << outside;
  }
  EXPECT_EQ(numbers[1], 0.25);
  EXPECT_EQ(totals[0], 0.5);
}

// FNV-1a of results for fixed arguments. They must be equal for every compiler and CPU.
class Digest {
 public:
  void add(uint64 bits) {
    for (int byte = 0; byte < 8; ++byte)
      value_ = (value_ ^ (bits >> 8 * byte & 0xff)) * 0x100000001b3ull;
  }
  uint64 value() const { return value_; }

 private:
  uint64 value_ = 0xcbf29ce484222325ull;
};

TEST(ElementaryBits, AreTheSameOnEveryComputer) {
  Digest digest;
  for (int i = 1; i < 3000; ++i) {
    const double x = i / 1024.0, y = (i - 1500) / 7.0;
    for (double result : {exp(y), exp2(y), log(x), log2(x), pow(x, y), cbrt(y)})
      digest.add(bits_of(result));
    digest.add(bits_of(cbrt(static_cast<float>(y))));
  }
  EXPECT_EQ(digest.value(), 1578556324569274745u);
}

TEST(ElementaryBits, OfElementsAreTheSameOnEveryComputer) {
  Digest digest;
  for (int i = -1500; i < 1500; ++i) {
    const double x = (i * 37 % 1009) / 64.0, y = i / 128.0;
    digest.add(bits_of(tanh(y)));
    digest.add(bits_of(atan2(y, x)));
    digest.add(bits_of(tanh(static_cast<float>(y))));
    digest.add(bits_of(atan2(static_cast<float>(y), static_cast<float>(x))));
  }
  EXPECT_EQ(digest.value(), 3743575571288491829u);
}

}  // namespace
}  // namespace jitstep::support
