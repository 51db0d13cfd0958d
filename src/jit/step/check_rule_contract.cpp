#include "jit/step/check_rule_contract.h"

#include <algorithm>

#include "jit/base/args.h"
#include "jit/base/text.h"
#include "jit/codegen/probe.h"
#include "jit/source/template_data.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::jit {

void check_rule_contract(const Plan& plan, Engine& engine) {
  const Probe probe = probe_of(plan);
  const auto kernel = engine.kernel(probe.text, probe.name, Target::cpu());
  OptionValues defaults(plan.rule(), plan.gradient());
  defaults.construct();
  std::vector<HyperParams> hyper_params;
  for (const std::int64_t t : {1, 2, 3}) hyper_params.push_back(defaults.at_step(t));
  std::vector<uint8> found(probe.findings.size(), 0);
  const ProbeArgs args{hyper_params.data(), found.data(), static_cast<int>(hyper_params.size()), 0};
  kernel->cpu("jitstep_probe")(&args, 0, 1);
  const auto first = std::find(found.begin(), found.end(), 1);
  if (first != found.end())
    throw Error(str_cat(engine.templates().data().shown_name(plan.rule().path), ": ",
                        probe.findings[static_cast<std::size_t>(first - found.begin())],
                        " (found by JITSTEP_CHECK)"));
}

}  // namespace jitstep::jit
