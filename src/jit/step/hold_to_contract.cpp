#include "jit/step/hold_to_contract.h"

#include <algorithm>

#include "jit/base/text.h"
#include "jit/codegen/probe.h"
#include "jitstep/args.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::jit {

void hold_to_contract(const Plan& plan, Engine& engine) {
  const Probe probe = probe_of(plan);
  const auto kernel = engine.kernel(probe.text, probe.name, Target::cpu());
  OptionValues defaults(plan.rule(), plan.gradient());
  defaults.construct();
  std::vector<HyperSet> sets;
  for (const std::int64_t t : {1, 2, 3}) sets.push_back(defaults.at_step(t));
  std::vector<uint8> found(probe.findings.size(), 0);
  const ProbeArgs args{sets.data(), found.data(), static_cast<int>(sets.size()), 0};
  kernel->cpu("jitstep_probe")(&args, 0, 1);
  const auto first = std::find(found.begin(), found.end(), 1);
  if (first != found.end())
    throw Error(text(engine.templates().shown_name(plan.rule().path), ": ",
                     probe.findings[static_cast<std::size_t>(first - found.begin())],
                     " (found by JITSTEP_CHECK)"));
}

}  // namespace jitstep::jit
