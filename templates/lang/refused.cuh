// Math functions of the compilers whose bits differ between targets, and functions that only some targets have. NVRTC
// declares them without any header. This file deletes them, so that every compiler rejects them in the same way. A
// rule or codec may declare its own function of the same name.
#pragma once
#include "elementary.cuh"

namespace jitstep {

#define JITSTEP_REFUSED(name)   \
  template <class... Arguments> \
  double name(Arguments...) = delete;
#define JITSTEP_REFUSED_MATH(name) JITSTEP_REFUSED(name) JITSTEP_REFUSED(name##f)

JITSTEP_REFUSED_MATH(acos)
JITSTEP_REFUSED_MATH(acosh)
JITSTEP_REFUSED_MATH(asin)
JITSTEP_REFUSED_MATH(asinh)
JITSTEP_REFUSED_MATH(atan)
JITSTEP_REFUSED_MATH(atanh)
JITSTEP_REFUSED_MATH(ceil)
JITSTEP_REFUSED_MATH(copysign)
JITSTEP_REFUSED_MATH(cos)
JITSTEP_REFUSED_MATH(cosh)
JITSTEP_REFUSED_MATH(cospi)
JITSTEP_REFUSED_MATH(cyl_bessel_i0)
JITSTEP_REFUSED_MATH(cyl_bessel_i1)
JITSTEP_REFUSED_MATH(erf)
JITSTEP_REFUSED_MATH(erfc)
JITSTEP_REFUSED_MATH(erfcinv)
JITSTEP_REFUSED_MATH(erfcx)
JITSTEP_REFUSED_MATH(erfinv)
JITSTEP_REFUSED_MATH(exp10)
JITSTEP_REFUSED_MATH(expm1)
JITSTEP_REFUSED_MATH(fabs)
JITSTEP_REFUSED_MATH(fdim)
JITSTEP_REFUSED_MATH(fdivide)
JITSTEP_REFUSED_MATH(floor)
JITSTEP_REFUSED_MATH(fmax)
JITSTEP_REFUSED_MATH(fmin)
JITSTEP_REFUSED_MATH(fmod)
JITSTEP_REFUSED_MATH(frexp)
JITSTEP_REFUSED_MATH(hypot)
JITSTEP_REFUSED_MATH(ilogb)
JITSTEP_REFUSED_MATH(isfinite)
JITSTEP_REFUSED_MATH(isinf)
JITSTEP_REFUSED_MATH(isnan)
JITSTEP_REFUSED_MATH(j0)
JITSTEP_REFUSED_MATH(j1)
JITSTEP_REFUSED_MATH(jn)
JITSTEP_REFUSED_MATH(ldexp)
JITSTEP_REFUSED_MATH(lgamma)
JITSTEP_REFUSED_MATH(llrint)
JITSTEP_REFUSED_MATH(llround)
JITSTEP_REFUSED_MATH(log10)
JITSTEP_REFUSED_MATH(log1p)
JITSTEP_REFUSED_MATH(logb)
JITSTEP_REFUSED_MATH(lrint)
JITSTEP_REFUSED_MATH(lround)
JITSTEP_REFUSED_MATH(modf)
JITSTEP_REFUSED_MATH(nan)
JITSTEP_REFUSED_MATH(nearbyint)
JITSTEP_REFUSED_MATH(nextafter)
JITSTEP_REFUSED_MATH(norm)
JITSTEP_REFUSED_MATH(norm3d)
JITSTEP_REFUSED_MATH(norm4d)
JITSTEP_REFUSED_MATH(normcdf)
JITSTEP_REFUSED_MATH(normcdfinv)
JITSTEP_REFUSED_MATH(powi)
JITSTEP_REFUSED_MATH(rcbrt)
JITSTEP_REFUSED_MATH(remainder)
JITSTEP_REFUSED_MATH(remquo)
JITSTEP_REFUSED_MATH(rhypot)
JITSTEP_REFUSED_MATH(rint)
JITSTEP_REFUSED_MATH(rnorm)
JITSTEP_REFUSED_MATH(rnorm3d)
JITSTEP_REFUSED_MATH(rnorm4d)
JITSTEP_REFUSED_MATH(round)
JITSTEP_REFUSED_MATH(rsqrt)
JITSTEP_REFUSED_MATH(scalbln)
JITSTEP_REFUSED_MATH(scalbn)
JITSTEP_REFUSED_MATH(signbit)
JITSTEP_REFUSED_MATH(sin)
JITSTEP_REFUSED_MATH(sincos)
JITSTEP_REFUSED_MATH(sincospi)
JITSTEP_REFUSED_MATH(sinh)
JITSTEP_REFUSED_MATH(sinpi)
JITSTEP_REFUSED_MATH(tan)
JITSTEP_REFUSED_MATH(tanpi)
JITSTEP_REFUSED_MATH(tgamma)
JITSTEP_REFUSED_MATH(trunc)
JITSTEP_REFUSED_MATH(y0)
JITSTEP_REFUSED_MATH(y1)
JITSTEP_REFUSED_MATH(yn)

JITSTEP_REFUSED(atan2f)
JITSTEP_REFUSED(cbrtf)
JITSTEP_REFUSED(expf)
JITSTEP_REFUSED(exp2f)
JITSTEP_REFUSED(logf)
JITSTEP_REFUSED(log2f)
JITSTEP_REFUSED(powf)
JITSTEP_REFUSED(sqrtf)
JITSTEP_REFUSED(tanhf)
JITSTEP_REFUSED(fmaf)
JITSTEP_REFUSED(labs)
JITSTEP_REFUSED(llabs)
JITSTEP_REFUSED(llmax)
JITSTEP_REFUSED(llmin)
JITSTEP_REFUSED(ullmax)
JITSTEP_REFUSED(ullmin)
JITSTEP_REFUSED(umax)
JITSTEP_REFUSED(umin)
JITSTEP_REFUSED(clock)
JITSTEP_REFUSED(clock64)
JITSTEP_REFUSED(printf)
JITSTEP_REFUSED(malloc)
JITSTEP_REFUSED(free)
JITSTEP_REFUSED(memcpy)
JITSTEP_REFUSED(memset)
JITSTEP_REFUSED(atomicAdd)
JITSTEP_REFUSED(atomicSub)
JITSTEP_REFUSED(atomicMax)
JITSTEP_REFUSED(atomicMin)
JITSTEP_REFUSED(atomicExch)
JITSTEP_REFUSED(atomicCAS)
JITSTEP_REFUSED(atomicAnd)
JITSTEP_REFUSED(atomicOr)
JITSTEP_REFUSED(atomicXor)
JITSTEP_REFUSED(atomicInc)
JITSTEP_REFUSED(atomicDec)

// These take and return double. A float argument does not compile, so that no element becomes a double by accident.
#define JITSTEP_OF_DOUBLE(name) \
  template <class... Arguments> \
  requires((kSame<Arguments, float> || ...)) double name(Arguments...) = delete;
JITSTEP_OF_DOUBLE(exp)
JITSTEP_OF_DOUBLE(exp2)
JITSTEP_OF_DOUBLE(log)
JITSTEP_OF_DOUBLE(log2)
JITSTEP_OF_DOUBLE(pow)
#undef JITSTEP_OF_DOUBLE
#undef JITSTEP_REFUSED_MATH
#undef JITSTEP_REFUSED

// Mixed float and double: g++ would choose one of port.cuh's two functions, NVRTC would not.
template <class A, class B, class C>
inline constexpr bool kMixed = (kSame<A, float> || kSame<B, float> ||
                                kSame<C, float>)&&(kSame<A, double> || kSame<B, double> ||
                                                   kSame<C, double>);
template <class A, class B, class C>
requires kMixed<A, B, C>
double fma(A, B, C) = delete;

}  // namespace jitstep
