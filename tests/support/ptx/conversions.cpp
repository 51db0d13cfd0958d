// Conversions between types. Registers may be wider than the type. The upper bits of the source are ignored, and those
// of the result are filled by its sign.
#include <cmath>
#include <limits>

#include "support/ptx/decoder.h"
#include "support/ptx/elementwise.h"

namespace jitstep::ptx {
namespace {

template <class T>
T load(const std::byte* values, std::size_t width, int lane) {
  T value;
  std::memcpy(&value, values + static_cast<std::size_t>(lane) * width, sizeof value);
  return value;
}

template <class T>
void store(std::byte* values, std::size_t width, int lane, T value) {
  std::byte* const to = values + static_cast<std::size_t>(lane) * width;
  if constexpr (std::is_integral_v<T>) {
    const auto extended =
        static_cast<std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>(value);
    std::memcpy(to, &extended, width);
  } else {
    std::memcpy(to, &value, sizeof value);
  }
}

// Conversion to an integer: truncates and clamps. NaN gives 0 if both types have at most 32 bits, and otherwise the
// number with only the highest bit set.
template <class R, class A>
R whole(A x) {
  using Limits = std::numeric_limits<R>;
  if (x != x)
    return sizeof(A) == 4 && sizeof(R) <= 4
               ? R{0}
               : static_cast<R>(std::uint64_t{1} << (8 * sizeof(R) - 1));
  const A t = std::trunc(x);
  if (t <= static_cast<A>(Limits::min())) return Limits::min();
  if (t >= static_cast<A>(Limits::max())) return Limits::max();
  return static_cast<R>(t);
}

void read_conversion(Decoder& decoder, const Form& form, const Statement& statement,
                     Instruction& i) {
  if (statement.operands.size() != 2) decoder.refuse("a conversion takes 2 operands");
  const Register to = decoder.any(statement.operands[0]);
  const Register from =
      statement.operands[1].kind == Operand::Kind::number
          ? Register{decoder.source(statement.operands[1], form.bits[1]), form.bits[1]}
          : decoder.any(statement.operands[1]);
  const bool real = form.parts == 2;  // a float is as wide as its register
  if (to.bits < form.bits[0] || from.bits < form.bits[1] || (real && to.bits != form.bits[0]) ||
      (form.sign && from.bits != form.bits[1]))
    decoder.refuse("the registers do not suit " + statement.opcode);
  i.at = {to.offset, from.offset};
  i.to = static_cast<std::uint8_t>(to.bits / 8);
  i.from = static_cast<std::uint8_t>(from.bits / 8);
}

template <class R, class A, class F>
void add_conversion(Forms& forms, const std::string& name, F) {
  forms[name] = {.run =
                     [](Warp& warp, const Instruction& i, Mask lanes) {
                       auto* const to = warp.values<std::byte>(i.at[0]);
                       const auto* const from = warp.values<std::byte>(i.at[1]);
                       for_lanes(lanes, [&](int lane) {
                         store<R>(to, i.to, lane, static_cast<R>(F{}(load<A>(from, i.from, lane))));
                       });
                     },
                 .read = read_conversion,
                 .bits = {kBits<R>, kBits<A>},
                 .parts = std::is_floating_point_v<R> ? 2 : 1,
                 .sign = std::is_floating_point_v<A>};
}

template <class R, class A, class F>
void add_between_types(Forms& forms, const std::string& rounding, F f) {
  add_conversion<R, A>(forms, "cvt" + rounding + "." + name_of<R>() + "." + name_of<A>(), f);
}

template <class A>
void add_from_integer(Forms& forms) {
  for_types<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t,
            std::uint64_t, std::int64_t>([&](auto r) {
    if constexpr (!std::is_same_v<decltype(r), A>)
      add_between_types<decltype(r), A>(forms, "", [](A x) { return x; });
  });
  add_between_types<float, A>(forms, ".rn", [](A x) { return x; });
  add_between_types<double, A>(forms, ".rn", [](A x) { return x; });
}

template <class A>
void add_from_real(Forms& forms) {
  for_types<std::uint32_t, std::int32_t, std::uint64_t, std::int64_t>([&](auto r) {
    using R = decltype(r);
    add_between_types<R, A>(forms, ".rzi", [](A x) { return whole<R>(x); });
  });
}

// The bits of a format with `Fraction` bits of fraction and 1 as its exponent of 2^Least, nearest to x, ties to even. A
// NaN is all ones without a sign, as PTX specifies.
template <int Fraction, int Least>
std::uint16_t rounded(float x) {
  if (x != x) return 0x7fff;
  constexpr std::uint32_t kInfinity = 0x7fffu >> Fraction << Fraction;
  const std::uint32_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isinf(x)) return static_cast<std::uint16_t>(sign | kInfinity);
  const int exponent = x == 0 ? Least : std::max(std::ilogb(x), Least);
  const double ulps = std::nearbyint(std::ldexp(std::abs(double{x}), Fraction - exponent));
  const auto above = static_cast<std::uint32_t>(exponent - Least) << Fraction;
  return static_cast<std::uint16_t>(sign |
                                    std::min(above + static_cast<std::uint32_t>(ulps), kInfinity));
}

float widened(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  const float size =
      exponent == 0x1f ? (fraction == 0 ? INFINITY : std::bit_cast<float>(0x7fffffffu))
      : exponent == 0  ? std::ldexp(static_cast<float>(fraction), -24)
                       : std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
  return size == size && (bits & 0x8000) != 0 ? -size : size;
}

float canonical(float x) { return x == x ? x : std::bit_cast<float>(0x7fffffffu); }

}  // namespace

void add_conversions(Forms& forms) {
  for_types<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t,
            std::uint64_t, std::int64_t>([&](auto a) { add_from_integer<decltype(a)>(forms); });
  add_from_real<float>(forms);
  add_from_real<double>(forms);
  add_between_types<double, float>(forms, "", [](float x) { return static_cast<double>(x); });
  add_between_types<float, double>(forms, ".rn",
                                   [](double x) { return canonical(static_cast<float>(x)); });
  add_conversion<std::uint16_t, float>(forms, "cvt.rn.bf16.f32",
                                       [](float x) { return rounded<7, -126>(x); });
  add_conversion<std::uint16_t, float>(forms, "cvt.rn.f16.f32",
                                       [](float x) { return rounded<10, -14>(x); });
  add_conversion<float, std::uint16_t>(forms, "cvt.f32.f16",
                                       [](std::uint16_t bits) { return widened(bits); });
  add_between_types<float, float>(forms, ".sat",
                                  [](float x) { return x > 0 ? std::min(x, 1.0f) : 0.0f; });
}

}  // namespace jitstep::ptx
