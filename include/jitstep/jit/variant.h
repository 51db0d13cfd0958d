// How a kernel is cut into threads, vectors and chunks; never what it computes.
#pragma once

#include "jitstep/args.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/target.h"

namespace jitstep::jit {

using jitstep::Variant;

/// How a kernel is run when nobody has tuned it.
JITSTEP_API Variant default_variant(const Plan& plan, const Target& target);

/// An Error, one sentence, if the kernel cannot be run so.
JITSTEP_API void check_variant(const Plan& plan, const Variant& variant, const Target& target);

}  // namespace jitstep::jit
