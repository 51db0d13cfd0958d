#include <algorithm>
#include <bitset>

#include "ptx/forms.h"

namespace jitstep::tests {
namespace {

__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

// The value of the bits as an integer of a type such as "s32".
Wide number(Bits bits, int width, bool sign) {
  return sign ? Wide{extended(bits, width)} : Wide{low(bits, width)};
}
Bits bits_of_number(Wide x) { return static_cast<Bits>(x); }

struct Type {
  std::string name;
  int width;
  bool sign;
};

const std::vector<Type> kTypes = {{"u16", 16, false}, {"s16", 16, true},  {"u32", 32, false},
                                  {"s32", 32, true},  {"u64", 64, false}, {"s64", 64, true}};

void add(std::vector<FormCase>& all, const std::string& name, const Type& t,
         Wide (*f)(Wide, Wide)) {
  all.push_back({name + "." + t.name, t.width, {t.width, t.width}, [=](const auto& v) {
                   return bits_of_number(
                       f(number(v[0], t.width, t.sign), number(v[1], t.width, t.sign)));
                 }});
}

void add_arithmetic(std::vector<FormCase>& all, const Type& t) {
  add(all, "add", t, [](Wide a, Wide b) { return a + b; });
  add(all, "sub", t, [](Wide a, Wide b) { return a - b; });
  add(all, "mul.lo", t, [](Wide a, Wide b) {
    return static_cast<Wide>(static_cast<UnsignedWide>(a) * static_cast<UnsignedWide>(b));
  });
  add(all, "min", t, [](Wide a, Wide b) { return a < b ? a : b; });
  add(all, "max", t, [](Wide a, Wide b) { return a < b ? b : a; });
  add(all, "div", t, [](Wide a, Wide b) { return b == 0 ? Wide{-1} : a / b; });
  add(all, "rem", t, [](Wide a, Wide b) { return b == 0 ? Wide{-1} : a % b; });
  all.push_back({"mad.lo." + t.name, t.width, {t.width, t.width, t.width}, [](const auto& v) {
                   return v[0] * v[1] + v[2];
                 }});
  // One bit at a time, so that no shift count is too large.
  all.push_back({"shr." + t.name, t.width, {t.width, 32}, [=](const auto& v) {
                   Wide x = number(v[0], t.width, t.sign);
                   for (Bits k = 0; k < std::min<Bits>(v[1], 80); ++k) x = (x - (x & 1)) / 2;
                   return bits_of_number(x);
                 }});
  if (t.sign) {
    all.push_back({"neg." + t.name, t.width, {t.width}, [](const auto& v) { return ~v[0] + 1; }});
    all.push_back({"abs." + t.name, t.width, {t.width}, [=](const auto& v) {
                     return v[0] >> (t.width - 1) & 1 ? ~v[0] + 1 : v[0];
                   }});
  }
  if (t.width == 64) {
    // Multiplies halves of 32 bits as unsigned numbers. For each negative factor it subtracts the other one.
    all.push_back({"mul.hi." + t.name, 64, {64, 64}, [=](const auto& v) {
                     const Bits a = v[0] >> 32, b = low(v[0], 32), c = v[1] >> 32,
                                d = low(v[1], 32);
                     const Bits middle = (b * d >> 32) + low(a * d, 32) + low(b * c, 32);
                     Bits high = a * c + (a * d >> 32) + (b * c >> 32) + (middle >> 32);
                     if (t.sign && v[0] >> 63) high -= v[1];
                     if (t.sign && v[1] >> 63) high -= v[0];
                     return high;
                   }});
    return;
  }
  all.push_back({"mul.wide." + t.name, 2 * t.width, {t.width, t.width}, [=](const auto& v) {
                   return bits_of_number(number(v[0], t.width, t.sign) *
                                         number(v[1], t.width, t.sign));
                 }});
  all.push_back({"mul.hi." + t.name, t.width, {t.width, t.width}, [=](const auto& v) {
                   return bits_of_number(
                       (number(v[0], t.width, t.sign) * number(v[1], t.width, t.sign)) >> t.width);
                 }});
}

void add_bits(std::vector<FormCase>& all, int w) {
  const std::string type = ".b" + std::to_string(w);
  all.push_back({"and" + type, w, {w, w}, [](const auto& v) { return ~(~v[0] | ~v[1]); }});
  all.push_back({"or" + type, w, {w, w}, [](const auto& v) { return ~(~v[0] & ~v[1]); }});
  all.push_back(
      {"xor" + type, w, {w, w}, [](const auto& v) { return (v[0] | v[1]) - (v[0] & v[1]); }});
  all.push_back({"not" + type, w, {w}, [](const auto& v) { return 0 - v[0] - 1; }});
  all.push_back({"shl" + type, w, {w, 32}, [](const auto& v) {
                   Bits x = v[0];
                   for (Bits k = 0; k < std::min<Bits>(v[1], 64); ++k) x += x;
                   return x;
                 }});
  all.push_back({"shr" + type, w, {w, 32}, [](const auto& v) {
                   Bits x = v[0];
                   for (Bits k = 0; k < std::min<Bits>(v[1], 64); ++k) x /= 2;
                   return x;
                 }});
  if (w == 16) return;
  all.push_back(
      {"popc" + type, 32, {w}, [](const auto& v) { return std::bitset<64>(v[0]).count(); }});
  all.push_back({"clz" + type, 32, {w}, [=](const auto& v) {
                   Bits count = 0;
                   for (int k = w - 1; k >= 0 && (v[0] >> k & 1) == 0; --k) ++count;
                   return count;
                 }});
}

// The manual's pseudocode, one bit at a time.
FormCase field_case(const Type& t) {
  return {"bfe." + t.name, t.width, {t.width, 32, 32}, [=](const auto& v) {
            const int msb = t.width - 1, pos = static_cast<int>(v[1] & 0xff),
                      len = static_cast<int>(v[2] & 0xff);
            const Bits sign = !t.sign || len == 0 ? 0 : v[0] >> std::min(pos + len - 1, msb) & 1;
            Bits d = 0;
            for (int i = 0; i <= msb; ++i)
              d |= (i < len && pos + i <= msb ? v[0] >> (pos + i) & 1 : sign) << i;
            return d;
          }};
}

// The manual's pseudocode.
FormCase insertion_case(int width) {
  return {"bfi.b" + std::to_string(width), width, {width, width, 32, 32}, [=](const auto& v) {
            const int pos = static_cast<int>(v[2] & 0xff), len = static_cast<int>(v[3] & 0xff);
            Bits f = v[1];
            for (int i = 0; i < len && pos + i < width; ++i)
              f = (f & ~(Bits{1} << (pos + i))) | (v[0] >> i & 1) << (pos + i);
            return f;
          }};
}

void add_permutations(std::vector<FormCase>& all) {
  all.push_back({"prmt.b32", 32, {32, 32, 32}, [](const auto& v) {
                   Bits d = 0;
                   for (int k = 0; k < 4; ++k) {
                     const Bits which = v[2] >> (4 * k) & 15;
                     Bits byte = (which & 4 ? v[1] : v[0]) >> (8 * (which & 3)) & 0xff;
                     if (which & 8) byte = byte > 0x7f ? 0xff : 0;
                     d |= byte << (8 * k);
                   }
                   return d;
                 }});
  all.push_back({"lop3.b32", 32, {32, 32, 32, 32}, [](const auto& v) {
                   Bits d = 0;
                   for (int k = 0; k < 32; ++k) {
                     const Bits row = (v[0] >> k & 1) << 2 | (v[1] >> k & 1) << 1 | (v[2] >> k & 1);
                     d |= (v[3] >> row & 1) << k;
                   }
                   return d;
                 }});
  for (const bool left : {true, false})
    for (const bool wrap : {true, false})
      all.push_back(
          {std::string("shf.") + (left ? "l" : "r") + (wrap ? ".wrap" : ".clamp") + ".b32",
           32,
           {32, 32, 32},
           [=](const auto& v) {
             const Bits by = wrap ? v[2] % 32 : std::min<Bits>(v[2], 32);
             if (left) return by == 0 ? v[1] : v[1] << by | v[0] >> (32 - by);
             return by == 0 ? v[0] : v[0] >> by | v[1] << (32 - by);
           }});
}

}  // namespace

std::vector<FormCase> integer_cases() {
  std::vector<FormCase> all;
  for (const Type& t : kTypes) add_arithmetic(all, t);
  for (const int w : {16, 32, 64}) add_bits(all, w);
  for (const Type& t : kTypes)
    if (t.width > 16) all.push_back(field_case(t));
  for (const int w : {32, 64}) all.push_back(insertion_case(w));
  add_permutations(all);
  all.push_back({"and.pred", 1, {1, 1}, [](const auto& v) { return v[0] * v[1]; }});
  all.push_back({"or.pred", 1, {1, 1}, [](const auto& v) { return Bits{v[0] + v[1] > 0}; }});
  all.push_back({"xor.pred", 1, {1, 1}, [](const auto& v) { return Bits{v[0] != v[1]}; }});
  all.push_back({"not.pred", 1, {1}, [](const auto& v) { return 1 - v[0]; }});
  all.push_back({"mov.pred", 1, {1}, [](const auto& v) { return v[0]; }});
  for (const int w : {16, 32, 64})
    for (const char letter : std::string(w == 16 ? "bus" : "busf")) {
      const std::string type = std::string(".") + letter + std::to_string(w);
      all.push_back({"mov" + type, w, {w}, [](const auto& v) { return v[0]; }});
      all.push_back(
          {"selp" + type, w, {w, w, 1}, [](const auto& v) { return v[2] ? v[0] : v[1]; }});
    }
  return all;
}

}  // namespace jitstep::tests
