#include <algorithm>
#include <cmath>
#include <limits>

#include "ptx/forms.h"

namespace jitstep::tests {
namespace {

template <class T>
T value(Bits bits) {
  if constexpr (sizeof(T) == 4)
    return as_float(bits);
  else
    return as_double(bits);
}

template <class T>
constexpr int kWidth = 8 * sizeof(T);
template <class T>
const std::string kName = sizeof(T) == 4 ? "f32" : "f64";

// Floats are computed in double, or in long double where double would round twice.
template <class T>
void add(std::vector<FormCase>& all, const std::string& name, int operands,
         const std::function<T(const std::vector<T>&)>& f) {
  all.push_back({name + "." + kName<T>, kWidth<T>,
                 std::vector<int>(static_cast<std::size_t>(operands), kWidth<T>),
                 [f](const std::vector<Bits>& v) {
                   std::vector<T> x;
                   for (const Bits bits : v) x.push_back(value<T>(bits));
                   return bits_of(f(x));
                 },
                 true});
}

float flushed(float x) {
  return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}

// The interpreter's approximations: the nearest float or one of its neighbors, by the operand's bits. The exceptions are
// operands for which an exact division or root needs one of them.
float approximated(float operand, double exact) {
  const float nearest = static_cast<float>(exact);
  if (!std::isnormal(nearest)) return flushed(nearest);
  const Bits which = bits_of(operand) % 3;
  return flushed(which == 1 ? nearest : std::nextafter(nearest, which == 0 ? 0 : 2 * nearest));
}

float reciprocal(float x) {
  const double exact = 1 / double{x};
  const float up = std::nextafter(static_cast<float>(exact), static_cast<float>(2 * exact));
  const float down = std::nextafter(static_cast<float>(exact), 0.0f);
  if (std::isnormal(down) && std::isfinite(up)) {
    const double above = double{up} - static_cast<float>(exact),
                 distance = exact - static_cast<float>(exact);
    if (std::abs(distance / above - 0.5) < 0x1p-20) return up;
    if (std::abs(-distance / (static_cast<float>(exact) - double{down}) - 0.5) < 0x1p-20)
      return static_cast<float>(exact);
  }
  return approximated(x, exact);
}

float inverse_root(float x) {
  const double exact = 1 / std::sqrt(double{x});
  const Bits parity = bits_of(x) & 0xffffffu;  // the significand, and whether the exponent is odd
  for (const float known : {0x1.f82294p0f, 0x1.9a2854p1f, 0x1.b5c076p1f, 0x1.dd26e4p1f})
    if (x > 0 && parity == (bits_of(known) & 0xffffffu)) return flushed(static_cast<float>(exact));
  return approximated(x, exact);
}

void add_flushing(std::vector<FormCase>& all) {
  using V = std::vector<float>;
  add<float>(all, "rcp.approx.ftz", 1, [](const V& x) { return reciprocal(flushed(x[0])); });
  add<float>(all, "rsqrt.approx.ftz", 1, [](const V& x) { return inverse_root(flushed(x[0])); });
  add<float>(all, "fma.rn.ftz", 3, [](const V& x) {
    return flushed(std::fma(flushed(x[0]), flushed(x[1]), flushed(x[2])));
  });
}

// With at least twice the digits plus two, rounding to float is correct for these four operations and for square roots.
void add_floats(std::vector<FormCase>& all) {
  using V = std::vector<float>;
  add<float>(all, "add.rn", 2,
             [](const V& x) { return static_cast<float>(double{x[0]} + double{x[1]}); });
  add<float>(all, "sub.rn", 2,
             [](const V& x) { return static_cast<float>(double{x[0]} - double{x[1]}); });
  add<float>(all, "mul.rn", 2,
             [](const V& x) { return static_cast<float>(double{x[0]} * double{x[1]}); });
  add<float>(all, "div.rn", 2, [](const V& x) { return x[0] / x[1]; });
  add<float>(all, "rcp.rn", 1, [](const V& x) { return 1.0f / x[0]; });
  add<float>(all, "sqrt.rn", 1,
             [](const V& x) { return static_cast<float>(std::sqrt(double{x[0]})); });
  add<float>(all, "fma.rn", 3, [](const V& x) { return std::fma(x[0], x[1], x[2]); });
}

void add_doubles(std::vector<FormCase>& all) {
  using V = std::vector<double>;
  add<double>(all, "add.rn", 2, [](const V& x) { return x[0] + x[1]; });
  add<double>(all, "sub.rn", 2, [](const V& x) { return x[0] - x[1]; });
  add<double>(all, "mul.rn", 2, [](const V& x) { return x[0] * x[1]; });
  add<double>(all, "div.rn", 2, [](const V& x) { return x[0] / x[1]; });
  add<double>(all, "rcp.rn", 1, [](const V& x) { return 1 / x[0]; });
  add<double>(all, "sqrt.rn", 1, [](const V& x) { return std::sqrt(x[0]); });
  add<double>(all, "fma.rn", 3, [](const V& x) { return std::fma(x[0], x[1], x[2]); });
}

template <class T>
void add_signs_and_bounds(std::vector<FormCase>& all) {
  using V = std::vector<T>;
  const Bits sign = Bits{1} << (kWidth<T> - 1);
  all.push_back(
      {"abs." + kName<T>, kWidth<T>, {kWidth<T>}, [=](const auto& v) { return v[0] & ~sign; }});
  all.push_back(
      {"neg." + kName<T>, kWidth<T>, {kWidth<T>}, [=](const auto& v) { return v[0] ^ sign; }});
  // -0 is less than +0, and a number is preferred to a NaN. fmin does the latter.
  add<T>(all, "min", 2, [](const V& x) {
    if (x[0] == 0 && x[1] == 0) return std::signbit(x[0]) ? x[0] : x[1];
    return std::fmin(x[0], x[1]);
  });
  add<T>(all, "max", 2, [](const V& x) {
    if (x[0] == 0 && x[1] == 0) return std::signbit(x[0]) ? x[1] : x[0];
    return std::fmax(x[0], x[1]);
  });
}

// ---- comparisons --------------------------------------------------------------------------------

enum Relation { kLess, kEqual, kGreater, kUnordered };

struct Comparison {
  const char* name;
  std::vector<Relation> holds;
};
const std::vector<Comparison> kOrdered = {{"eq", {kEqual}},   {"ne", {kLess, kGreater}},
                                          {"lt", {kLess}},    {"le", {kLess, kEqual}},
                                          {"gt", {kGreater}}, {"ge", {kGreater, kEqual}}};
const std::vector<Comparison> kOthers = {
    {"equ", {kEqual, kUnordered}},      {"neu", {kLess, kGreater, kUnordered}},
    {"ltu", {kLess, kUnordered}},       {"leu", {kLess, kEqual, kUnordered}},
    {"gtu", {kGreater, kUnordered}},    {"geu", {kGreater, kEqual, kUnordered}},
    {"num", {kLess, kEqual, kGreater}}, {"nan", {kUnordered}}};

void add_comparison(std::vector<FormCase>& all, const Comparison& one, const std::string& type,
                    int width, const std::function<Relation(Bits, Bits)>& relation) {
  all.push_back(
      {std::string("setp.") + one.name + "." + type, 1, {width, width}, [=](const auto& v) {
         Bits holds = 0;
         for (const Relation r : one.holds) holds |= r == relation(v[0], v[1]);
         return holds;
       }});
}

template <class T>
Relation relation_of(T a, T b) {
  return a < b ? kLess : a > b ? kGreater : a == b ? kEqual : kUnordered;
}

// ---- conversions --------------------------------------------------------------------------------

struct Integer {
  std::string name;
  int width;
  bool sign;
};
const std::vector<Integer> kIntegers = {{"u8", 8, false},   {"s8", 8, true},    {"u16", 16, false},
                                        {"s16", 16, true},  {"u32", 32, false}, {"s32", 32, true},
                                        {"u64", 64, false}, {"s64", 64, true}};

// Truncates one bit at a time. Values out of range give the bound.
template <class T>
Bits truncated(T x, const Integer& to) {
  if (std::isnan(x)) return kWidth<T> == 32 && to.width <= 32 ? 0 : Bits{1} << (to.width - 1);
  const long double t = std::trunc(static_cast<long double>(x));
  const long double above = std::ldexp(1.0L, to.sign ? to.width - 1 : to.width);
  if (t >= above) return to.sign ? (Bits{1} << (to.width - 1)) - 1 : ~Bits{0};
  if (t < (to.sign ? -above : 0.0L)) return to.sign ? Bits{1} << (to.width - 1) : 0;
  return t < 0 ? 0 - static_cast<Bits>(-t) : static_cast<Bits>(t);
}

template <class T>
Bits from_integer(Bits bits, const Integer& from) {
  return from.sign ? bits_of(static_cast<T>(extended(bits, from.width)))
                   : bits_of(static_cast<T>(low(bits, from.width)));
}

struct Narrow {
  int fraction, least;  // bits of fraction, and the exponent of normal numbers that is stored as 1
  Bits largest,
      sign;  // the largest number, or infinity, which IEEE 754 rounds to as to the next number

  double value(Bits bits) const {
    const auto exponent = static_cast<int>(bits >> fraction);
    const auto digits = static_cast<double>(low(bits, fraction));
    const double whole = exponent > 0 ? std::ldexp(1.0, fraction) + digits : digits;
    return std::ldexp(whole, std::max(exponent, 1) - 1 + least - fraction);
  }
  // By a search among all numbers. Ties go to even bits.
  Bits nearest(float x) const {
    if (std::isnan(x)) return sign - 1;
    const double size = std::min(std::abs(double{x}), value(largest));
    Bits above = 0, end = largest;  // the first bits whose value is not below size
    while (above < end) {
      const Bits middle = (above + end) / 2;
      if (value(middle) < size)
        above = middle + 1;
      else
        end = middle;
    }
    const double up = value(above) - size, down = above > 0 ? size - value(above - 1) : 1;
    const bool is_below = down < up || (down == up && above % 2 == 1);
    return (above - (is_below ? 1 : 0)) | (std::signbit(x) ? sign : 0);
  }
};
constexpr Narrow kBf16{7, -126, 0x7f80, 0x8000}, kFp16{10, -14, 0x7c00, 0x8000},
    kE4m3{3, -6, 0x7e, 0x80}, kE5m2{2, -14, 0x7b, 0x80};

// Integers by multiples of 2^-24, of which the largest float16 has 2^40.
Bits widened(Bits half) {
  const Bits sign = low(half >> 15, 1) << 31, exponent = low(half >> 10, 5), digits = low(half, 10);
  if (exponent == 31) return sign | (digits == 0 ? 0x7f800000 : 0x7fffffff);
  const Bits units = exponent == 0 ? digits : (digits + 1024) << (exponent - 1);
  return sign | bits_of(static_cast<float>(units) * 0x1p-24f);
}

int register_width(int width) { return std::max(width, 16); }

}  // namespace

std::vector<FormCase> real_cases() {
  std::vector<FormCase> all;
  add_floats(all);
  add_flushing(all);
  add_doubles(all);
  add_signs_and_bounds<float>(all);
  add_signs_and_bounds<double>(all);
  return all;
}

std::vector<FormCase> comparison_cases() {
  std::vector<FormCase> all;
  for (const Integer& t : kIntegers)
    for (const Comparison& one : kOrdered)
      if (t.width > 8)
        add_comparison(all, one, t.name, t.width, [=](Bits a, Bits b) {
          return t.sign ? relation_of(extended(a, t.width), extended(b, t.width))
                        : relation_of(low(a, t.width), low(b, t.width));
        });
  for (const auto* some : {&kOrdered, &kOthers})
    for (const Comparison& one : *some) {
      add_comparison(all, one, "f32", 32,
                     [](Bits a, Bits b) { return relation_of(as_float(a), as_float(b)); });
      add_comparison(all, one, "f64", 64,
                     [](Bits a, Bits b) { return relation_of(as_double(a), as_double(b)); });
    }
  for (const int width : {16, 32, 64})
    for (std::size_t k = 0; k < 2; ++k)
      add_comparison(all, kOrdered[k], "b" + std::to_string(width), width,
                     [](Bits a, Bits b) { return relation_of(a, b); });
  return all;
}

std::vector<FormCase> conversion_cases() {
  std::vector<FormCase> all;
  for (const Integer& from : kIntegers) {
    const std::vector<int> operand = {register_width(from.width)};
    for (const Integer& to : kIntegers)
      if (from.name != to.name)
        all.push_back({"cvt." + to.name + "." + from.name, register_width(to.width), operand,
                       [=](const auto& v) {
                         const Bits x = from.sign ? static_cast<Bits>(extended(v[0], from.width))
                                                  : low(v[0], from.width);
                         return to.sign ? static_cast<Bits>(extended(x, to.width))
                                        : low(x, to.width);
                       }});
    all.push_back({"cvt.rn.f32." + from.name, 32, operand,
                   [=](const auto& v) { return from_integer<float>(v[0], from); }});
    all.push_back({"cvt.rn.f64." + from.name, 64, operand,
                   [=](const auto& v) { return from_integer<double>(v[0], from); }});
    if (from.width < 32) continue;
    all.push_back({"cvt.rzi." + from.name + ".f32", from.width, {32}, [=](const auto& v) {
                     return truncated(as_float(v[0]), from);
                   }});
    all.push_back({"cvt.rzi." + from.name + ".f64", from.width, {64}, [=](const auto& v) {
                     return truncated(as_double(v[0]), from);
                   }});
  }
  all.push_back({"cvt.f64.f32",
                 64,
                 {32},
                 [](const auto& v) { return bits_of(static_cast<double>(as_float(v[0]))); },
                 true});
  all.push_back({"cvt.rn.f32.f64",
                 32,
                 {64},
                 [](const auto& v) { return bits_of(static_cast<float>(as_double(v[0]))); },
                 true});
  all.push_back(
      {"cvt.rn.bf16.f32", 16, {32}, [](const auto& v) { return kBf16.nearest(as_float(v[0])); }});
  all.push_back(
      {"cvt.rn.f16.f32", 16, {32}, [](const auto& v) { return kFp16.nearest(as_float(v[0])); }});
  all.push_back({"cvt.f32.f16", 32, {16}, [](const auto& v) { return widened(v[0]); }, true});
  for (const auto& [name, format] : {std::pair{"e4m3x2", kE4m3}, std::pair{"e5m2x2", kE5m2}})
    all.push_back({"cvt.rn.satfinite." + std::string(name) + ".f32",
                   16,
                   {32, 32},
                   [format = format](const auto& v) {
                     return format.nearest(as_float(v[0])) << 8 | format.nearest(as_float(v[1]));
                   }});
  all.push_back({"cvt.rn.f16x2.e4m3x2", 32, {16}, [](const auto& v) {
                   const auto half = [](Bits bits) {
                     if (low(bits, 7) == 0x7f) return Bits{0x7fff};
                     const auto size = static_cast<float>(kE4m3.value(low(bits, 7)));
                     return kFp16.nearest(bits >> 7 != 0 ? -size : size);
                   };
                   return half(v[0] >> 8) << 16 | half(low(v[0], 8));
                 }});
  all.push_back({"cvt.sat.f32.f32", 32, {32}, [](const auto& v) {
                   const float x = as_float(v[0]);
                   return bits_of(std::isnan(x) || x <= 0 ? 0.0f : x >= 1 ? 1.0f : x);
                 }});
  return all;
}

}  // namespace jitstep::tests
