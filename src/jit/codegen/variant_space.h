// The variants that a tuner may try for a kernel.
#pragma once

#include <vector>

#include "jit/codegen/hardware.h"
#include "jitstep/jit/variant.h"

namespace jitstep::jit {

/// One number of a variant and the values it may have, in ascending order.
struct TunedParameter {
  const char* name;
  int Variant::*field;
  std::vector<int> values;
};

/// Values by parameter. Which of them go together check_variant() says, and nobody else.
struct JITSTEP_API VariantSpace {
  Plan plan;
  Target target;
  std::vector<TunedParameter> parameters;

  /// Whether every number is among its parameter's values and the kernel can be run so.
  bool holds(const Variant& variant) const;
  /// All of them, the default first and the rest in the order of the values.
  std::vector<Variant> all() const;
  /// Those that differ from a variant in one parameter, by one place among its values.
  std::vector<Variant> neighbours(const Variant& variant) const;
  /// Those that differ from a variant in one parameter, by any value.
  std::vector<Variant> single_changes(const Variant& variant) const;
};

/// What is worth trying for a kernel on a machine. The default is always part of it.
JITSTEP_API VariantSpace variant_space(const Plan& plan, const Hardware& hardware);

}  // namespace jitstep::jit
