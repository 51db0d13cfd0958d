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

std::string warning_of(const std::string& loop) {
  return str_cat("slow on the CPU: the compiler does not vectorize ", loop,
                 ". Replace branches by `c ? a : b` with both values computed. In a codec that "
                 "looks values up in a table, declare the table by `using Codebook`.");
}

// The warnings of a kernel that is in the cache without a report need another compile.
std::vector<std::string> warnings_of(const Plan& plan, Engine& engine) {
  const Unit generated = unit(plan, default_kernel_config(plan, Target::cpu()), Target::cpu());
  const auto built = engine.build(generated.text, generated.name, Target::cpu());
  std::vector<std::string> warnings;
  const std::string preprocessed = engine.preprocessed_text(generated.text, generated.name);
  if (const auto logged = loops_in_log(built->binary.log, preprocessed)) {
    for (const std::string& loop : *logged) warnings.push_back(warning_of(loop));
    return warnings;
  }
  const LoopReport report = loop_report_of(preprocessed, generated.name, engine.settings());
  for (const ScalarLoop& loop : report.scalar) warnings.push_back(warning_of(to_string(loop)));
  if (!report.problem.empty()) warnings.push_back(report.problem);
  return warnings;
}

}  // namespace

void warn_of_scalar_loops(const std::vector<Candidate>& candidates, Workbench& plain,
                          std::vector<KernelReport>& reports) {
  std::vector<KernelReport*> examined;
  for (std::size_t i = 0; i < reports.size(); ++i)
    if (reports[i].problems.empty() && formats_of(candidates[i]) == formats_of(candidates[0]))
      examined.push_back(&reports[i]);
  in_parallel(examined.size(), [&](std::size_t i) {
    for (std::string& warning : warnings_of(*examined[i]->plan, plain.engine))
      examined[i]->warnings.push_back(std::move(warning));
  });
}

}  // namespace jitstep::tool::check
