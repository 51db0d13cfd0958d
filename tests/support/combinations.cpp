#include "support/combinations.h"

#include <algorithm>

#include "jitstep/jit/option_values.h"
#include "jitstep/jit/plan.h"
#include "support/bits.h"

namespace jitstep::support {
namespace {

// With the flags of the default options, so that the spec can be built as it is.
jit::KernelSpec with_flags(jit::KernelSpec spec) {
  const jit::OptionValues options(spec.rule);
  spec.flags = options.flags();
  spec.gradient_flags = options.gradient_flags();
  const auto& slots = jit::default_catalog().rule(spec.rule).slots;
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (!jit::is_stored(slots[i], spec.flags)) spec.state.slots[i].reset();
  return jit::resolve(spec).spec;
}

std::ptrdiff_t slots_kept(const std::string& rule, const emulation::RuleOptions& options) {
  jit::OptionValues values(rule);
  for (const auto& [name, value] : options.values) values.set(name, value);
  const auto flags = values.flags(options.dims);
  const auto& slots = values.rule().slots;
  return std::count_if(slots.begin(), slots.end(),
                       [&](const jit::Slot& slot) { return jit::is_stored(slot, flags); });
}

}  // namespace

std::vector<jit::KernelSpec> ci_combinations() {
  using Kind = jit::Manifest::Kind;
  const jit::Catalog& catalog = jit::default_catalog();
  std::vector<jit::KernelSpec> specs;
  const auto add = [&](const jit::KernelSpec& spec) {
    const jit::KernelSpec whole = with_flags(spec);
    if (std::find(specs.begin(), specs.end(), whole) == specs.end()) specs.push_back(whole);
  };
  for (const auto& rule : catalog.names(Kind::rule)) add(spec_of(rule, "fp32"));
  for (const auto& codec : catalog.names(Kind::codec))
    for (const char* rule : {"adamw", "lamb"}) add(spec_of(rule, codec));
  for (const auto& weights : catalog.names(Kind::weights))
    for (jit::Dtype dtype : catalog.weights(weights).dtypes)
      add(spec_of("adamw", "fp32", weights, dtype, dtype));
  return specs;
}

emulation::RuleOptions fullest_options(const std::string& rule) {
  const jit::Catalog& catalog = jit::default_catalog();
  const auto all = emulation::cover(catalog.rule(rule), catalog);
  return *std::max_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return slots_kept(rule, a) < slots_kept(rule, b);
  });
}

}  // namespace jitstep::support
