// What `jitstep inspect` and `jitstep compile` work on: one kernel in one config, as its texts.
#pragma once

#include <jitstep/jit/engine.h>
#include <jitstep/jit/option_values.h>
#include <jitstep/jit/plan.h>
#include <jitstep/jit/unit.h>

#include <memory>
#include <string>
#include <vector>

#include "../kernel_args.h"

namespace jitstep::tool::inspect {

/// A kernel of parameters that are large enough for every format.
struct Subject {
  jit::OptionValues options;
  jit::Plan plan;
  jit::Target target;
  jit::KernelConfig config;
  std::string reason;  // for the configuration
  jit::Unit unit;
  std::string requested;     // the unit's text, or an edited one
  std::string preprocessed;  // what the compiler is given
  bool edited = false;
  std::string note;  // where the kernel is not all that was asked for; else empty

  /// Compiled, or found in the cache. An Error if it does not compile, or if there is no compiler.
  std::shared_ptr<const jit::Built> built() const;
};

/// A UsageError says which flags do not go together.
Subject subject(const KernelArgs& args);

}  // namespace jitstep::tool::inspect
