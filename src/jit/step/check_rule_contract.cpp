#include "jit/step/check_rule_contract.h"

#include <algorithm>

#include "jit/base/args.h"
#include "jit/base/text.h"
#include "jit/codegen/probe.h"
#include "jit/source/template_data.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::jit {
namespace {

using Found = std::vector<uint8>;

Found run(const Probe& probe, const std::string& text, const Plan& plan, Engine& engine) {
  const auto kernel = engine.kernel(text, probe.name, Target::cpu());
  OptionValues defaults(plan.rule(), plan.gradient());
  defaults.construct();
  std::vector<HyperParams> hyper_params;
  for (const std::int64_t t : {1, 2, 3}) hyper_params.push_back(defaults.at_step(t));
  Found found(probe.findings.size(), 0);
  const ProbeArgs args{hyper_params.data(), found.data(), static_cast<int>(hyper_params.size()), 0};
  kernel->cpu("jitstep_probe")(&args, 0, 1);
  return found;
}

// A suspected number is the rule's own if it is as large again without the compiler's fill pattern. Without the
// pattern, unset variables may also be errors of the compiler.
void confirm(Found& found, const Probe& probe, const Plan& plan, Engine& engine) {
  Settings settings = engine.settings();
  settings.check = false;
  Engine without_pattern(settings);
  Found again(found.size(), 0);
  try {
    again = run(probe, engine.preprocessed_text(probe.text, probe.name), plan, without_pattern);
  } catch (const CompileError&) {
  }
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i] == kSuspectedFinding) found[i] = again[i] == kSuspectedFinding ? 0 : kFinding;
}

}  // namespace

void check_rule_contract(const Plan& plan, Engine& engine) {
  const Probe probe = probe_of(plan);
  Found found = run(probe, probe.text, plan, engine);
  if (std::count(found.begin(), found.end(), kSuspectedFinding) > 0)
    confirm(found, probe, plan, engine);
  const auto first = std::find(found.begin(), found.end(), kFinding);
  if (first != found.end())
    throw Error(str_cat(engine.templates().data().shown_name(plan.rule().path), ": ",
                        probe.findings[static_cast<std::size_t>(first - found.begin())],
                        " (found by JITSTEP_CHECK)"));
}

}  // namespace jitstep::jit
