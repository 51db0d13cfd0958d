#include <gtest/gtest.h>

#include <cmath>

#include "ptx/forms.h"

namespace jitstep::tests {
namespace {

// Values of every kind: small and large integers, floats and doubles, subnormal and non-finite ones, permute selectors.
const std::vector<Bits>& samples(int width) {
  static const std::map<int, std::vector<Bits>> all = [] {
    std::map<int, std::vector<Bits>> made;
    made[1] = {0, 1};
    made[8] = made[16] = {0,      1,      2,      7,      100,    0x7f,  0x80,   0xff,
                          0x7fff, 0x8000, 0xffff, 0x1234, 0xabcd, 0x3ff, 0x7c00, 0xfc00};
    made[32] = {0,   1,      2,      5,      8,          31,         32,         33,
                255, 0x3210, 0x7654, 0xfedc, 0x7fffffff, 0x80000000, 0xffffffff, 0x12345678};
    for (const float x :
         {1.0f, -1.5f, 0.1f, 3e-39f, -1e-45f, 1.17549435e-38f, 3.4e38f, -0.0f, 1e20f, 2147483648.0f,
          -2147483904.0f, 0.99999994f, 16777217.0f, INFINITY, -INFINITY, std::nanf("")})
      made[32].push_back(bits_of(x));
    made[64] = {0,
                1,
                3,
                40,
                63,
                64,
                0x7fffffff,
                0xffffffff,
                0x100000000,
                ~Bits{0},
                Bits{1} << 63,
                ~Bits{0} >> 1,
                0x123456789abcdef0};
    for (const double x :
         {1.0, -1.5, 0.1, 5e-324, 2.2250738585072014e-308, 1e-310, -0.0, 1e300, 1e-40, 3.4e38,
          9.3e18, -9.3e18, 4294967296.5, double{INFINITY}, -double{INFINITY}, std::nan("")})
      made[64].push_back(bits_of(x));
    for (auto& [bits, values] : made)
      for (Bits& value : values) value = low(value, bits);
    return made;
  }();
  return all.at(width);
}

const char* register_of(int width) {
  return width == 16 || width == 8 ? "%rs" : width == 32 ? "%r" : width == 64 ? "%rd2" : "%p";
}

// Loads operand k of a lane, from its 8 bytes in memory, into its own register.
std::string load(int width, std::size_t k) {
  const std::string at = "[%rd10+" + std::to_string(8 * k) + "]", n = std::to_string(k + 3);
  if (width == 1) return "ld.global.u32 %r9, " + at + ";\nsetp.ne.s32 %p" + n + ", %r9, 0;\n";
  const std::string type = width <= 16 ? "u16" : width == 32 ? "u32" : "u64";
  return "ld.global." + type + " " + register_of(width) + n + ", " + at + ";\n";
}

std::string store(int width) {
  if (width == 1) return "selp.b32 %r9, 1, 0, %p1;\nst.global.u32 [%rd11], %r9;";
  const std::string type = width <= 16 ? "u16" : width == 32 ? "u32" : "u64";
  return "st.global." + type + " [%rd11], " +
         (width <= 16   ? "%rs1"
          : width == 32 ? "%r2"
                        : "%rd21") +
         ";";
}

std::string text_of(const FormCase& form) {
  std::string body =
      "mul.wide.u32 %rd10, %r1, 32;\nadd.s64 %rd10, %rd10, %rd1;\n"
      "mul.wide.u32 %rd11, %r1, 8;\nadd.s64 %rd11, %rd11, %rd2;\n";
  std::string operation = form.name + " ";
  operation += form.result == 1    ? "%p1"
               : form.result <= 16 ? "%rs1"
               : form.result == 32 ? "%r2"
                                   : "%rd21";
  for (std::size_t k = 0; k < form.operands.size(); ++k) {
    const int width = form.operands[k];
    body += load(width, k);
    operation += std::string(", ") + register_of(width) + std::to_string(k + 3);
  }
  return kernel(body + operation + ";\n" + store(form.result));
}

// Halfway between numbers of narrower formats, and near their bounds.
constexpr float kTies[] = {1.00390625f,    -1.01171875f,   0x1.fep127f,     0x1.ffp127f,
                           0x1.1p-130f,    1.00048828125f, -1.00146484375f, 65519.996f,
                           65520.0f,       0x1.3p-20f,     0x1.8p-24f,      -0x1p-25f,
                           0x1.000002p-25f};

// All combinations of the first two values. Further operands cycle through their samples.
std::vector<std::vector<Bits>> combinations(const FormCase& form) {
  std::vector<std::vector<Bits>> all;
  const std::size_t n = form.operands.size();
  std::vector<Bits> first = samples(form.operands[0]);
  if (n == 1 && form.operands[0] == 32)
    for (const float x : kTies) first.push_back(bits_of(x));
  const auto& second = samples(n > 1 ? form.operands[1] : 1);
  std::size_t next = 0;
  for (const Bits a : first)
    for (const Bits b : n > 1 ? second : std::vector<Bits>{0}) {
      std::vector<Bits> values = {a, b};
      values.resize(n);
      for (std::size_t k = 2; k < n; ++k) {
        const auto& others = samples(form.operands[k]);
        values[k] = others[(next++ * 7 + k) % others.size()];
      }
      all.push_back(values);
    }
  return all;
}

bool is_nan(Bits bits, int width) {
  return width == 64 ? std::isnan(as_double(bits)) : std::isnan(as_float(bits));
}

}  // namespace

void check(const FormCase& form) {
  const auto all = combinations(form);
  std::vector<Bits> in;
  for (const auto& values : all)
    for (std::size_t k = 0; k < 4; ++k) in.push_back(k < values.size() ? values[k] : 0);
  Device device(text_of(form));
  const std::size_t blocks = (all.size() + 31) / 32;
  in.resize(blocks * 32 * 4);
  const auto from = device.upload(in), to = device.upload(std::vector<Bits>(blocks * 32));
  device.launch({from, to}, static_cast<unsigned>(blocks * 32));
  const auto got = device.download<Bits>(to, all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Bits wanted = low(form.expected(all[i]), form.result), found = low(got[i], form.result);
    if (form.real && is_nan(wanted, form.result) && is_nan(found, form.result)) continue;
    std::string operands;
    for (const Bits value : all[i]) operands += " " + testing::PrintToString(value);
    EXPECT_EQ(found, wanted) << form.name << operands;
  }
}

}  // namespace jitstep::tests
