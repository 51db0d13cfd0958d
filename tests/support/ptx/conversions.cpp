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

// The magnitude in a format with `Fraction` bits of fraction and 1 as its exponent of 2^Least, to nearest, ties to
// even. Numbers that are too large have more bits, and so does infinity.
template <int Fraction, int Least>
std::uint32_t rounded_magnitude(float x) {
  const float size = std::min(std::abs(x), std::numeric_limits<float>::max());
  const int exponent = size == 0 ? Least : std::max(std::ilogb(size), Least);
  const double ulps = std::nearbyint(std::ldexp(double{size}, Fraction - exponent));
  return (static_cast<std::uint32_t>(exponent - Least) << Fraction) +
         static_cast<std::uint32_t>(ulps);
}

// The bits in a format of `Bits` bits whose largest number, or infinity, is `Largest`. A NaN is all ones without a
// sign, as PTX specifies.
template <int Bits, int Fraction, int Least, std::uint32_t Largest>
std::uint32_t rounded(float x) {
  constexpr std::uint32_t kSignBit = 1u << (Bits - 1);
  if (x != x) return kSignBit - 1;
  return std::min(rounded_magnitude<Fraction, Least>(x), Largest) |
         (std::signbit(x) ? kSignBit : 0);
}
template <int Fraction, int Least, std::uint32_t Largest>
std::uint16_t rounded_pair(float high, float low) {
  return static_cast<std::uint16_t>(rounded<8, Fraction, Least, Largest>(high) << 8 |
                                    rounded<8, Fraction, Least, Largest>(low));
}

// E4M3 in float16, which has 8 more exponents below and 7 more bits of fraction.
std::uint32_t e4m3_in_half(std::uint32_t bits) {
  const std::uint32_t size = bits & 0x7f;
  if (size == 0x7f) return 0x7fff;
  const float value =
      size < 8 ? std::ldexp(static_cast<float>(size), -9)
               : std::ldexp(static_cast<float>((size & 7) + 8), static_cast<int>(size >> 3) - 10);
  return rounded<16, 10, -14, 0x7c00>((bits & 0x80) != 0 ? -value : value);
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
                                       [](float x) { return rounded<16, 7, -126, 0x7f80>(x); });
  add_conversion<std::uint16_t, float>(forms, "cvt.rn.f16.f32",
                                       [](float x) { return rounded<16, 10, -14, 0x7c00>(x); });
  add_conversion<float, std::uint16_t>(forms, "cvt.f32.f16",
                                       [](std::uint16_t bits) { return widened(bits); });
  add_elementwise<std::uint16_t, float, float>(
      forms, "cvt.rn.satfinite.e4m3x2.f32",
      [](float high, float low) { return rounded_pair<3, -6, 0x7e>(high, low); });
  add_elementwise<std::uint16_t, float, float>(
      forms, "cvt.rn.satfinite.e5m2x2.f32",
      [](float high, float low) { return rounded_pair<2, -14, 0x7b>(high, low); });
  add_elementwise<std::uint32_t, std::uint16_t>(
      forms, "cvt.rn.f16x2.e4m3x2",
      [](std::uint16_t two) { return e4m3_in_half(two >> 8) << 16 | e4m3_in_half(two & 0xffu); });
  add_between_types<float, float>(forms, ".sat",
                                  [](float x) { return x > 0 ? std::min(x, 1.0f) : 0.0f; });
}

}  // namespace jitstep::ptx
