// Division by a number that is known before, rounded as any division: by its inverse, and once more by what is left
// (Brisebarre, Muller, Raina: Accelerating correctly rounded floating-point division when the divisor is known in
// advance, IEEE Trans. Computers 53(8), 2004, algorithm 1). A division takes as long as ten products.
#pragma once
#include "port.cuh"

namespace jitstep {

struct Divisor {
  real value, inverse;
};

// `by` between 2^-20 and 2^20, or 0.
KHD Divisor divisor(double by) {
  const real value = static_cast<real>(by);
  return {value, 1 / value};
}

// Of a number that is 0, not finite or between 2^-80 and 2^80 in magnitude: no quotient or remainder is subnormal then.
KHD real operator/(real a, const Divisor& by) {
  const real near = a * by.inverse, left = fma(-near, by.value, a);
  const real rounded = fma(left, by.inverse, near);
  return left == left ? rounded : near;
}

}  // namespace jitstep
