// Arithmetic of floats and doubles, rounded to nearest. Subnormal numbers are not flushed to zero, unless a name says
// so.
#include <cmath>

#include "support/ptx/elementwise.h"

namespace jitstep::ptx {
namespace {

// A NaN result in float is the one that PTX specifies. In double it stays as it is.
float result_of(float x) { return x == x ? x : std::bit_cast<float>(0x7fffffffu); }
double result_of(double x) { return x; }

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
template <class T>
constexpr BitsOf<T> kSign = BitsOf<T>{1} << (8 * sizeof(T) - 1);

template <class T>
T changed(T x, BitsOf<T> keep, BitsOf<T> flip) {
  return std::bit_cast<T>((std::bit_cast<BitsOf<T>>(x) & keep) ^ flip);
}

// -0 is less than +0. Of a number and a NaN, the result is the number.
template <class T>
T least(T a, T b) {
  if (a != a) return b == b ? b : result_of(a);
  if (b != b) return a;
  return a < b || (a == b && std::signbit(a)) ? a : b;
}
template <class T>
T greatest(T a, T b) {
  if (a != a || b != b) return least(a, b);
  return a > b || (a == b && std::signbit(b)) ? a : b;
}

template <class T>
void add_of(Forms& forms) {
  const std::string type = "." + name_of<T>(), rounded = ".rn" + type;
  add_elementwise<T, T, T>(forms, "add" + rounded, [](T a, T b) { return result_of(a + b); });
  add_elementwise<T, T, T>(forms, "sub" + rounded, [](T a, T b) { return result_of(a - b); });
  add_elementwise<T, T, T>(forms, "mul" + rounded, [](T a, T b) { return result_of(a * b); });
  add_elementwise<T, T, T, T>(forms, "fma" + rounded,
                              [](T a, T b, T c) { return result_of(std::fma(a, b, c)); });
  add_elementwise<T, T, T>(forms, "div" + rounded, [](T a, T b) { return result_of(a / b); });
  add_elementwise<T, T>(forms, "rcp" + rounded, [](T a) { return result_of(1 / a); });
  add_elementwise<T, T>(forms, "sqrt" + rounded, [](T a) { return result_of(std::sqrt(a)); });
  add_elementwise<T, T>(forms, "abs" + type,
                        [](T a) { return changed(a, BitsOf<T>(~kSign<T>), 0); });
  add_elementwise<T, T>(forms, "neg" + type,
                        [](T a) { return changed(a, ~BitsOf<T>{0}, kSign<T>); });
  add_elementwise<T, T, T>(forms, "min" + type, [](T a, T b) { return least(a, b); });
  add_elementwise<T, T, T>(forms, "max" + type, [](T a, T b) { return greatest(a, b); });
}

// A subnormal number becomes zero.
float flushed(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? changed(x, kSign<float>, 0) : x;
}

// The nearest float or one of its neighbors, as an approximation may give. The operand's lowest bits select it. For a
// few operands, a GPU's result is known: compilers make divisions and square roots of it, which are correctly rounded
// only with that result. For these, it is the nearest float of larger magnitude (reciprocals) or the nearest one (roots).
float inexact(float operand, float result) {
  const auto bits = std::bit_cast<std::uint32_t>(operand);
  if (!std::isnormal(result)) return flushed(result_of(result));
  return flushed(std::bit_cast<float>(std::bit_cast<std::uint32_t>(result) + bits % 3 - 1));
}

// A reciprocal that is nearly halfway between two floats is rounded up.
float near_reciprocal(float x) {
  const double exact = 1 / double{x};
  const float nearest = static_cast<float>(exact);
  const float other =
      std::nextafter(nearest, std::abs(nearest) > std::abs(exact) ? 0 : 2 * nearest);
  const double middle = (double{nearest} + double{other}) / 2;
  if (!std::isnormal(nearest) || std::abs(exact / middle - 1) > 0x1p-45) return inexact(x, nearest);
  return std::abs(nearest) > std::abs(other) ? nearest : other;
}

float near_inverse_root(float x) {
  const float nearest = static_cast<float>(1 / std::sqrt(double{x}));
  int exponent = 0;
  const float fraction = std::frexp(x, &exponent);  // in [0.5, 1)
  const float significand = exponent % 2 != 0 ? 2 * fraction : fraction;
  for (const float known : {0x1.f82294p0f, 0x1.9a2854p-1f, 0x1.b5c076p-1f, 0x1.dd26e4p-1f})
    if (significand == known) return flushed(nearest);
  return inexact(x, nearest);
}

// Forms that flush subnormal operands and results to zero.
void add_flushing_forms(Forms& forms) {
  add_elementwise<float, float>(forms, "rcp.approx.ftz.f32",
                                [](float a) { return near_reciprocal(flushed(a)); });
  add_elementwise<float, float>(forms, "rsqrt.approx.ftz.f32",
                                [](float a) { return near_inverse_root(flushed(a)); });
  add_elementwise<float, float, float, float>(
      forms, "fma.rn.ftz.f32", [](float a, float b, float c) {
        return flushed(result_of(std::fma(flushed(a), flushed(b), flushed(c))));
      });
}

}  // namespace

void add_real_forms(Forms& forms) {
  add_flushing_forms(forms);
  add_of<float>(forms);
  add_of<double>(forms);
}

}  // namespace jitstep::ptx
