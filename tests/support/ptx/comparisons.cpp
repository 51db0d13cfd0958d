// Comparisons, and selections by their results.
#include "support/ptx/elementwise.h"

namespace jitstep::ptx {
namespace {

template <class T, class F>
void add_one(Forms& forms, const std::string& name, const std::string& type, F f) {
  add_elementwise<bool, T, T>(forms, "setp." + name + "." + type, f);
}

template <class T>
void add_orders(Forms& forms) {
  const std::string type = name_of<T>();
  add_one<T>(forms, "eq", type, [](T a, T b) { return a == b; });
  add_one<T>(forms, "lt", type, [](T a, T b) { return a < b; });
  add_one<T>(forms, "le", type, [](T a, T b) { return a <= b; });
  add_one<T>(forms, "gt", type, [](T a, T b) { return a > b; });
  add_one<T>(forms, "ge", type, [](T a, T b) { return a >= b; });
  // Ordered comparison: false if an operand is NaN.
  add_one<T>(forms, "ne", type, [](T a, T b) { return a < b || a > b; });
}

template <class T>
void add_unordered(Forms& forms) {
  const std::string type = name_of<T>();
  add_one<T>(forms, "equ", type, [](T a, T b) { return !(a < b || a > b); });
  add_one<T>(forms, "neu", type, [](T a, T b) { return !(a == b); });
  add_one<T>(forms, "ltu", type, [](T a, T b) { return !(a >= b); });
  add_one<T>(forms, "leu", type, [](T a, T b) { return !(a > b); });
  add_one<T>(forms, "gtu", type, [](T a, T b) { return !(a <= b); });
  add_one<T>(forms, "geu", type, [](T a, T b) { return !(a < b); });
  add_one<T>(forms, "num", type, [](T a, T b) { return a == a && b == b; });
  add_one<T>(forms, "nan", type, [](T a, T b) { return a != a || b != b; });
}

template <class T>
void add_bits(Forms& forms) {
  const std::string bits = std::to_string(8 * sizeof(T));
  add_one<T>(forms, "eq", "b" + bits, [](T a, T b) { return a == b; });
  add_one<T>(forms, "ne", "b" + bits, [](T a, T b) { return a != b; });
  for (const std::string letter : {"b", "u", "s", "f"})
    if (letter != "f" || sizeof(T) > 2)
      add_elementwise<T, T, T, bool>(forms, "selp." + letter + bits,
                                     [](T a, T b, bool yes) { return yes ? a : b; });
}

}  // namespace

void add_comparisons(Forms& forms) {
  for_types<std::int16_t, std::int32_t, std::int64_t, std::uint16_t, std::uint32_t, std::uint64_t,
            float, double>([&](auto x) { add_orders<decltype(x)>(forms); });
  for_types<float, double>([&](auto x) { add_unordered<decltype(x)>(forms); });
  for_types<std::uint16_t, std::uint32_t, std::uint64_t>(
      [&](auto x) { add_bits<decltype(x)>(forms); });
}

}  // namespace jitstep::ptx
