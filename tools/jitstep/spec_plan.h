// The kernel that a spec in JSON makes.
#pragma once

#include <jitstep/jit/formats.h>
#include <jitstep/jit/plan.h>

#include <limits>
#include <string>

namespace jitstep::tool {

/// A spec as Optimizer::from_spec takes it, and what it steps.
struct SpecWords {
  std::string spec;                   // {"rule": "adamw", "state": "int8"}
  std::string parameter = "float32";  // dtypes; no gradient: the parameter's
  std::string gradient = {};
};

/// Of parameters with this many dimensions and elements: by default large enough for every format.
jit::Plan plan_of_spec(const SpecWords& words, int dims = 2,
                       std::int64_t elements = std::numeric_limits<std::int64_t>::max());

}  // namespace jitstep::tool
