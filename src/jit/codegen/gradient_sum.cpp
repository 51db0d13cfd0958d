#include "jit/codegen/gradient_sum.h"

#include "jitstep/jit/option_values.h"

namespace jitstep::jit {
namespace {

OptionValues rule_values() { return OptionValues("jitstep_gradient_sum"); }

}  // namespace

Plan gradient_sum_plan(Dtype sum, bool stochastic) {
  Formats formats;
  formats.weights = stochastic ? "stochastic" : "native";
  return resolve(rule_values(), formats, {.dtype = sum});
}

HyperParams gradient_sum_params(std::uint64_t seed) { return rule_values().at_step(1, seed); }

}  // namespace jitstep::jit
