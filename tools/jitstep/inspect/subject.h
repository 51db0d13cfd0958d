// What `jitstep inspect` looks at: one kernel of one variant, as its texts.
#pragma once

#include <jitstep/jit/engine.h>
#include <jitstep/jit/option_values.h>
#include <jitstep/jit/plan.h>
#include <jitstep/jit/unit.h>

#include <memory>
#include <string>
#include <vector>

#include "../optimizer_words.h"

namespace jitstep::tool::inspect {

/// What is asked for.
struct Request {
  OptimizerWords kernel;
  jit::Target target = jit::Target::cuda(90);
  int dims = 2;                            // of the parameters
  bool strided = false;                    // some of them, or gradients, are not dense
  bool scaled = false;                     // gradients are divided by a GradScaler's scale
  std::vector<std::string> variant;        // "vector=8", or four numbers
  std::string variant_word = "--variant";  // that it was given by
  std::string override_file;               // an edited flat text
};

/// A kernel of parameters that are large enough for every format.
struct Subject {
  jit::OptionValues options;
  jit::Plan plan;
  jit::Target target;
  jit::Variant variant;
  std::string reason;  // for the variant
  jit::Unit unit;
  std::string asked;  // the unit's text, or an edited one
  std::string flat;   // what the compiler is given
  bool edited = false;
  std::string note;  // where the kernel is not all that was asked for; else empty

  /// Compiled, or found in the cache. An Error if it does not compile, or if there is no compiler.
  std::shared_ptr<const jit::Built> built() const;
};

/// An Error says what does not go together.
Subject subject(const Request& request);

}  // namespace jitstep::tool::inspect
