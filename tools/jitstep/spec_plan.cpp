#include "spec_plan.h"

#include <jit/codegen/spec_text.h>

namespace jitstep::tool {

using namespace jitstep::jit;

Plan plan_of_spec(const SpecWords& words, int dims, std::int64_t elements) {
  const SpecText spec = parse_spec(words.spec);
  OptionValues values(spec.rule);
  for (const auto& [name, value] : spec.options) values.set(name, value);
  values.validate();
  const ParameterKind parameter{
      .dtype = parse_dtype(words.parameter), .dims = dims, .elements = elements};
  KernelSpec kernel = resolve(values, spec.formats, parameter).spec;
  if (!words.gradient.empty()) kernel.gradient = parse_dtype(words.gradient);
  return resolve(kernel);
}

}  // namespace jitstep::tool
