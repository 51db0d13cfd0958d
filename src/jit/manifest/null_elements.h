// Which of an option's numbers may be null.
#pragma once

#include <cmath>
#include <cstddef>

#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

/// True if the number at this position may be null, because its default is. Numbers of a `List` have no defaults.
inline bool may_be_null(const Option& option, std::size_t index) {
  if (option.type != Option::Type::numbers || !option.initial.is_numbers()) return false;
  const Value::Numbers& defaults = option.initial.numbers();
  return index < defaults.size() && std::isnan(defaults[index]);
}

}  // namespace jitstep::jit
