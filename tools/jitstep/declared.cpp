#include "declared.h"

#include <jit/base/text.h>

namespace jitstep::tool {

using namespace jitstep::jit;

std::string range_of(const Option& option) {
  if (option.lifted) return "computed: " + option.lifted->written();
  if (option.type == Option::Type::boolean) return "true, false";
  if (option.type == Option::Type::choice) return joined(option.choices);
  return to_string(option.constraint);
}

std::string written(const std::optional<Expression>& condition) {
  return condition ? condition->written() : "always";
}

std::string first_sentence(const std::string& description) {
  for (std::size_t i = 0; i < description.size(); ++i) {
    const bool ends = i + 1 == description.size() || description[i + 1] == ' ';
    if (description[i] == '.' && ends) return description.substr(0, i + 1);
  }
  return description;
}

}  // namespace jitstep::tool
