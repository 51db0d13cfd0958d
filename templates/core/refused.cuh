// Names of the compilers' own mathematics, whose bits differ between targets. NVRTC knows them
// without any header: here they are deleted, so that every compiler refuses them in the same way.
#pragma once

namespace jitstep {

#define JITSTEP_REFUSED(name)         \
  template <class... Arguments>       \
  double name(Arguments...) = delete; \
  template <class... Arguments>       \
  double name##f(Arguments...) = delete;

JITSTEP_REFUSED(exp)
JITSTEP_REFUSED(exp2)
JITSTEP_REFUSED(exp10)
JITSTEP_REFUSED(expm1)
JITSTEP_REFUSED(log)
JITSTEP_REFUSED(log2)
JITSTEP_REFUSED(log10)
JITSTEP_REFUSED(log1p)
JITSTEP_REFUSED(pow)
JITSTEP_REFUSED(sin)
JITSTEP_REFUSED(cos)
JITSTEP_REFUSED(tan)
JITSTEP_REFUSED(tanh)
JITSTEP_REFUSED(atan2)
JITSTEP_REFUSED(erf)
JITSTEP_REFUSED(cbrt)
JITSTEP_REFUSED(hypot)
JITSTEP_REFUSED(rsqrt)
JITSTEP_REFUSED(fmin)
JITSTEP_REFUSED(fmax)
JITSTEP_REFUSED(fmod)
#undef JITSTEP_REFUSED

}  // namespace jitstep
