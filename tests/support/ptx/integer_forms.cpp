// Operations on integers and bits.
#include <algorithm>
#include <bit>

#include "support/ptx/elementwise.h"

namespace jitstep::ptx {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

// Computes in unsigned types that integer promotion does not make signed, so that sums and products wrap around.
template <class T, class F>
auto wrapping(F) {
  using U = std::common_type_t<Unsigned<T>, u32>;
  return [](auto... x) { return static_cast<T>(F{}(static_cast<U>(x)...)); };
}

template <class T>
struct Wide;
template <>
struct Wide<u16> : std::type_identity<u32> {};
template <>
struct Wide<s16> : std::type_identity<s32> {};
template <>
struct Wide<u32> : std::type_identity<u64> {};
template <>
struct Wide<s32> : std::type_identity<s64> {};

// Division by 0 gives all ones, and so does the remainder. PTX leaves it open; ptxas makes it so.
template <class T>
T quotient(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if (std::is_signed_v<T> && b == static_cast<T>(-1))
    return static_cast<T>(0 - static_cast<Unsigned<T>>(a));
  return static_cast<T>(a / b);
}
template <class T>
T remainder(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
  return static_cast<T>(a % b);
}

// A shift by the width or more gives zeros, or copies of the sign.
template <class T>
T shifted_left(T a, u32 by) {
  return by >= 8 * sizeof(T) ? T{0} : static_cast<T>(static_cast<u64>(a) << by);
}
template <class T>
T shifted_right(T a, u32 by) {
  constexpr u32 kAll = 8 * sizeof(T);
  if (by >= kAll) return std::is_signed_v<T> && a < 0 ? static_cast<T>(~T{0}) : T{0};
  return static_cast<T>(a >> by);
}

// `into`, with the lowest `count` bits of `a` from bit `from` on.
template <class T>
T inserted(T a, T into, u32 from, u32 count) {
  constexpr u32 kAll = 8 * sizeof(T);
  from &= 0xff;
  count = from >= kAll ? 0 : std::min(count & 0xff, kAll - from);
  if (count == 0) return into;
  const T mask = static_cast<T>((~u64{0} >> (64 - count)) << from);
  return (into & ~mask) | (static_cast<T>(a << from) & mask);
}

// `count` bits starting at bit `from`. Signed types extend the last bit.
template <class T>
T field(T a, u32 from, u32 count) {
  constexpr u32 kAll = 8 * sizeof(T);
  from &= 0xff;
  count &= 0xff;
  const bool negative = std::is_signed_v<T> && a < 0;
  if (count == 0) return 0;
  const u32 last = std::min(from + count - 1, kAll - 1);
  const bool sign =
      std::is_signed_v<T> && (last < kAll ? static_cast<u64>(a) >> last & 1 : negative);
  u64 bits = from >= kAll ? 0 : static_cast<u64>(static_cast<Unsigned<T>>(a)) >> from;
  const u32 there = from >= kAll ? 0 : std::min(count, kAll - from);
  if (there < 64) bits &= (u64{1} << there) - 1;
  if (sign && there < 64) bits |= ~u64{0} << there;
  return static_cast<T>(bits);
}

u32 permuted(u32 a, u32 b, u32 selection) {
  const u64 both = u64{b} << 32 | a;
  u32 result = 0;
  for (u32 k = 0; k < 4; ++k) {
    const u32 which = selection >> 4 * k & 0xf;
    u32 byte = static_cast<u32>(both >> 8 * (which & 7)) & 0xff;
    if (which & 8) byte = byte & 0x80 ? 0xff : 0;  // its sign in every bit
    result |= byte << 8 * k;
  }
  return result;
}

u32 of_table(u32 a, u32 b, u32 c, u32 table) {
  u32 result = 0;
  if (table & 0x80) result |= a & b & c;
  if (table & 0x40) result |= a & b & ~c;
  if (table & 0x20) result |= a & ~b & c;
  if (table & 0x10) result |= a & ~b & ~c;
  if (table & 0x08) result |= ~a & b & c;
  if (table & 0x04) result |= ~a & b & ~c;
  if (table & 0x02) result |= ~a & ~b & c;
  if (table & 0x01) result |= ~a & ~b & ~c;
  return result;
}

template <class T>
void add_arithmetic(Forms& forms) {
  const std::string type = "." + name_of<T>();
  add_elementwise<T, T, T>(forms, "add" + type, wrapping<T>([](auto a, auto b) { return a + b; }));
  add_elementwise<T, T, T>(forms, "sub" + type, wrapping<T>([](auto a, auto b) { return a - b; }));
  add_elementwise<T, T, T>(forms, "mul.lo" + type,
                           wrapping<T>([](auto a, auto b) { return a * b; }));
  add_elementwise<T, T, T, T>(forms, "mad.lo" + type,
                              wrapping<T>([](auto a, auto b, auto c) { return a * b + c; }));
  add_elementwise<T, T, T>(forms, "div" + type, [](T a, T b) { return quotient(a, b); });
  add_elementwise<T, T, T>(forms, "rem" + type, [](T a, T b) { return remainder(a, b); });
  add_elementwise<T, T, T>(forms, "min" + type, [](T a, T b) { return std::min(a, b); });
  add_elementwise<T, T, T>(forms, "max" + type, [](T a, T b) { return std::max(a, b); });
  add_elementwise<T, T, u32>(forms, "shr" + type, [](T a, u32 by) { return shifted_right(a, by); });
  if constexpr (std::is_signed_v<T>) {
    add_elementwise<T, T>(forms, "neg" + type, wrapping<T>([](auto a) { return 0 - a; }));
    add_elementwise<T, T>(forms, "abs" + type,
                          wrapping<T>([](auto a) { return static_cast<T>(a) < 0 ? 0 - a : a; }));
  }
}

template <class T>
void add_wide_arithmetic(Forms& forms) {
  using W = typename Wide<T>::type;
  const std::string type = "." + name_of<T>();
  add_elementwise<W, T, T>(forms, "mul.wide" + type,
                           wrapping<W>([](auto a, auto b) { return a * b; }));
  add_elementwise<T, T, T>(forms, "mul.hi" + type,
                           [](T a, T b) { return static_cast<T>(W{a} * W{b} >> 8 * sizeof(T)); });
}

template <class T>
void add_high_product(Forms& forms) {
  __extension__ using W = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
  add_elementwise<T, T, T>(forms, "mul.hi." + name_of<T>(),
                           [](T a, T b) { return static_cast<T>(W{a} * W{b} >> 64); });
}

template <class T>
void add_bits(Forms& forms) {
  const std::string type = ".b" + std::to_string(8 * sizeof(T));
  add_elementwise<T, T, T>(forms, "and" + type, [](T a, T b) { return a & b; });
  add_elementwise<T, T, T>(forms, "or" + type, [](T a, T b) { return a | b; });
  add_elementwise<T, T, T>(forms, "xor" + type, [](T a, T b) { return a ^ b; });
  add_elementwise<T, T>(forms, "not" + type, [](T a) { return ~a; });
  add_elementwise<T, T, u32>(forms, "shl" + type, [](T a, u32 by) { return shifted_left(a, by); });
  add_elementwise<T, T, u32>(forms, "shr" + type, [](T a, u32 by) { return shifted_right(a, by); });
  if constexpr (sizeof(T) >= 4) {
    add_elementwise<u32, T>(forms, "popc" + type, [](T a) { return std::popcount(a); });
    add_elementwise<u32, T>(forms, "clz" + type, [](T a) { return std::countl_zero(a); });
  }
}

// Predicates are masks, so that 32 lanes are one operation.
template <class F>
void add_logic(Forms& forms, const std::string& name, F) {
  forms[name] = {.run =
                     [](Warp& warp, const Instruction& i, Mask lanes) {
                       Mask& to = *warp.values<Mask>(i.at[0]);
                       const Mask result =
                           F{}(*warp.values<Mask>(i.at[1]), *warp.values<Mask>(i.at[2]));
                       to = (to & ~lanes) | (result & lanes);
                     },
                 .bits = {1, 1, 1}};
}

template <class F>
void add_funnel(Forms& forms, const std::string& name, F) {
  add_elementwise<u32, u32, u32, u32>(forms, "shf." + name + ".wrap.b32",
                                      [](u32 a, u32 b, u32 by) { return F{}(a, b, by & 31); });
  add_elementwise<u32, u32, u32, u32>(
      forms, "shf." + name + ".clamp.b32",
      [](u32 a, u32 b, u32 by) { return F{}(a, b, std::min<u32>(by, 32)); });
}

}  // namespace

void add_integer_forms(Forms& forms) {
  for_types<u16, s16, u32, s32, u64, s64>([&](auto x) { add_arithmetic<decltype(x)>(forms); });
  for_types<u16, s16, u32, s32>([&](auto x) { add_wide_arithmetic<decltype(x)>(forms); });
  for_types<u64, s64>([&](auto x) { add_high_product<decltype(x)>(forms); });
  for_types<u16, u32, u64>([&](auto x) { add_bits<decltype(x)>(forms); });
  for_types<u32, s32, u64, s64>([&](auto x) {
    using T = decltype(x);
    add_elementwise<T, T, u32, u32>(forms, "bfe." + name_of<T>(),
                                    [](T a, u32 from, u32 count) { return field(a, from, count); });
  });
  for_types<u32, u64>([&](auto x) {
    using T = decltype(x);
    add_elementwise<T, T, T, u32, u32>(
        forms, sizeof(T) == 4 ? "bfi.b32" : "bfi.b64",
        [](T a, T into, u32 from, u32 count) { return inserted(a, into, from, count); });
  });
  add_logic(forms, "and.pred", [](Mask a, Mask b) { return a & b; });
  add_logic(forms, "or.pred", [](Mask a, Mask b) { return a | b; });
  add_logic(forms, "xor.pred", [](Mask a, Mask b) { return a ^ b; });
  add_elementwise<bool, bool>(forms, "not.pred", [](bool a) { return !a; });
  add_elementwise<u32, u32, u32, u32>(
      forms, "prmt.b32", [](u32 a, u32 b, u32 which) { return permuted(a, b, which); });
  add_elementwise<u32, u32, u32, u32, u32>(
      forms, "lop3.b32", [](u32 a, u32 b, u32 c, u32 table) { return of_table(a, b, c, table); });
  add_funnel(forms, "l",
             [](u32 a, u32 b, u32 by) { return static_cast<u32>((u64{b} << 32 | a) << by >> 32); });
  add_funnel(forms, "r",
             [](u32 a, u32 b, u32 by) { return static_cast<u32>((u64{b} << 32 | a) >> by); });
}

}  // namespace jitstep::ptx
