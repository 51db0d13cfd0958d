#include "jit/codegen/gradient_sum.h"

#include "jit/manifest/internal_rule.h"
#include "jitstep/jit/formats.h"

namespace jitstep::jit {
namespace {

OptionValues rule_values() {
  return internal_rule("jitstep_gradient_sum", "",
                       "  static constexpr uint32 weights_stream = 128;\n"
                       "  KHD static void update_param(auto& e, const auto&) { e.p += e.g; }\n");
}

}  // namespace

Plan gradient_sum_plan(Dtype sum, bool stochastic) {
  Formats formats;
  formats.weights = stochastic ? "stochastic" : "native";
  return resolve(rule_values(), formats, {.dtype = sum});
}

HyperParams gradient_sum_params(std::uint64_t seed) { return rule_values().at_step(1, seed); }

}  // namespace jitstep::jit
