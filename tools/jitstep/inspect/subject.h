// The kernel that `jitstep inspect` and `jitstep compile` work on, in one config, with its sources.
#pragma once

#include <jit/codegen/unit.h>
#include <jitstep/jit/engine.h>
#include <jitstep/jit/option_values.h>
#include <jitstep/jit/plan.h>

#include <memory>
#include <string>
#include <vector>

#include "../kernel_args.h"

namespace jitstep::tool::inspect {

/// A kernel, by default of parameters that are large enough for every format.
struct Subject {
  jit::OptionValues options;
  jit::Plan plan;
  jit::Target target;
  jit::KernelConfig config;
  std::string reason;  // for the configuration
  jit::Unit unit;
  std::string requested;     // the translation unit, or the edited source of --override
  std::string preprocessed;  // the source that the compiler gets
  bool edited = false;
  std::string note;  // where the kernel differs from the request; else empty

  /// The compiled kernel, from the cache if it has it. Throws an Error if the kernel does not compile, or if there is
  /// no compiler.
  std::shared_ptr<const jit::Built> built() const;
};

/// The kernel that the flags name. Throws a UsageError for invalid or incompatible flags.
Subject subject(const KernelArgs& args);

}  // namespace jitstep::tool::inspect
