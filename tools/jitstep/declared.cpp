#include "declared.h"

#include <jit/base/text.h>

namespace jitstep::tool {

using namespace jitstep::jit;

std::string taken_by(const Option& option) {
  if (option.lifted) return "computed: " + option.lifted->written();
  if (option.type == Option::Type::boolean) return "true, false";
  if (option.type == Option::Type::choice) return joined(option.choices);
  return to_string(option.constraint);
}

std::string written(const std::optional<Expression>& condition) {
  return condition ? condition->written() : "always";
}

}  // namespace jitstep::tool
