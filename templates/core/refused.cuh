// Names of the compilers' own mathematics, whose bits differ between targets. NVRTC knows them
// without any header: here they are deleted, so that every compiler refuses them in the same way.
#pragma once

namespace jitstep {

#define JITSTEP_REFUSED(name)         \
  template <class... Arguments>       \
  double name(Arguments...) = delete; \
  template <class... Arguments>       \
  double name##f(Arguments...) = delete;

JITSTEP_REFUSED(acos)
JITSTEP_REFUSED(acosh)
JITSTEP_REFUSED(asin)
JITSTEP_REFUSED(asinh)
JITSTEP_REFUSED(atan)
JITSTEP_REFUSED(atan2)
JITSTEP_REFUSED(atanh)
JITSTEP_REFUSED(cbrt)
JITSTEP_REFUSED(cos)
JITSTEP_REFUSED(cosh)
JITSTEP_REFUSED(cospi)
JITSTEP_REFUSED(cyl_bessel_i0)
JITSTEP_REFUSED(cyl_bessel_i1)
JITSTEP_REFUSED(erf)
JITSTEP_REFUSED(erfc)
JITSTEP_REFUSED(erfcinv)
JITSTEP_REFUSED(erfcx)
JITSTEP_REFUSED(erfinv)
JITSTEP_REFUSED(exp)
JITSTEP_REFUSED(exp10)
JITSTEP_REFUSED(exp2)
JITSTEP_REFUSED(expm1)
JITSTEP_REFUSED(fdivide)
JITSTEP_REFUSED(fmax)
JITSTEP_REFUSED(fmin)
JITSTEP_REFUSED(fmod)
JITSTEP_REFUSED(hypot)
JITSTEP_REFUSED(j0)
JITSTEP_REFUSED(j1)
JITSTEP_REFUSED(jn)
JITSTEP_REFUSED(lgamma)
JITSTEP_REFUSED(log)
JITSTEP_REFUSED(log10)
JITSTEP_REFUSED(log1p)
JITSTEP_REFUSED(log2)
JITSTEP_REFUSED(norm)
JITSTEP_REFUSED(norm3d)
JITSTEP_REFUSED(norm4d)
JITSTEP_REFUSED(normcdf)
JITSTEP_REFUSED(normcdfinv)
JITSTEP_REFUSED(pow)
JITSTEP_REFUSED(powi)
JITSTEP_REFUSED(rcbrt)
JITSTEP_REFUSED(rhypot)
JITSTEP_REFUSED(rnorm)
JITSTEP_REFUSED(rnorm3d)
JITSTEP_REFUSED(rnorm4d)
JITSTEP_REFUSED(rsqrt)
JITSTEP_REFUSED(sin)
JITSTEP_REFUSED(sincos)
JITSTEP_REFUSED(sincospi)
JITSTEP_REFUSED(sinh)
JITSTEP_REFUSED(sinpi)
JITSTEP_REFUSED(tan)
JITSTEP_REFUSED(tanh)
JITSTEP_REFUSED(tanpi)
JITSTEP_REFUSED(tgamma)
JITSTEP_REFUSED(y0)
JITSTEP_REFUSED(y1)
JITSTEP_REFUSED(yn)
#undef JITSTEP_REFUSED

}  // namespace jitstep
