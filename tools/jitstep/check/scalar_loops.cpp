#include "scalar_loops.h"

#include <jit/base/parallel.h>
#include <jit/base/text.h>
#include <jit/codegen/unit.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/kernel_config.h>

#include "../compilers.h"

namespace jitstep::tool::check {
namespace {

using namespace jitstep::jit;

// Rule, codecs by name, weight format and dtype.
std::string formats_of(const Candidate& candidate) {
  const KernelSpec& spec = candidate.steps.spec;
  const auto name = [](const auto& slot) { return slot ? slot->name : std::string(); };
  return str_cat(spec.rule, " ", joined(spec.state.slots, " ", name), " ", spec.state.weights, " ",
                 to_string(spec.state.dtype));
}

std::string warning_of(const ScalarLoop& loop) {
  return str_cat("slow on the CPU: the compiler does not vectorize ", to_string(loop),
                 ". Replace branches by `c ? a : b` with both values computed. In a codec that "
                 "looks values up in a table, declare the table by `using Codebook`.");
}

}  // namespace

void warn_of_scalar_loops(const std::vector<Candidate>& candidates, const Workbench& plain,
                          std::vector<KernelReport>& reports) {
  std::vector<KernelReport*> examined;
  for (std::size_t i = 0; i < reports.size(); ++i)
    if (reports[i].problems.empty() && formats_of(candidates[i]) == formats_of(candidates[0]))
      examined.push_back(&reports[i]);
  in_parallel(examined.size(), [&](std::size_t i) {
    const Plan& plan = *examined[i]->plan;
    const Unit made = unit(plan, default_kernel_config(plan, Target::cpu()), Target::cpu());
    const std::string preprocessed = plain.engine.preprocessed_text(made.text, made.name);
    const LoopReport report = loop_report_of(preprocessed, made.name, plain.engine.settings());
    for (const ScalarLoop& loop : report.scalar) examined[i]->warnings.push_back(warning_of(loop));
    if (!report.problem.empty()) examined[i]->warnings.push_back(report.problem);
  });
}

}  // namespace jitstep::tool::check
