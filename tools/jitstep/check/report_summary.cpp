#include "report_summary.h"

#include <algorithm>

namespace jitstep::tool::check {
namespace {

using namespace jitstep::jit;

void add(std::vector<Finding>& findings, const Problem& problem, const std::string& kernel) {
  auto found = std::find_if(findings.begin(), findings.end(),
                            [&](const Finding& one) { return one.first.group == problem.group; });
  if (found == findings.end()) found = findings.insert(found, {problem, {}});
  if (found->kernels.empty() || found->kernels.back() != kernel) found->kernels.push_back(kernel);
}

}  // namespace

Status Report::status() const {
  if (!problems_of(*this).empty()) return kFailure;
  return unchecked.empty() ? kSuccess : kIncomplete;
}

std::vector<Finding> problems_of(const Report& report) {
  std::vector<Finding> findings;
  for (const Problem& problem : report.problems) findings.push_back({problem, {}});
  for (const KernelReport& kernel : report.kernels)
    for (const Problem& problem : kernel.problems) add(findings, problem, kernel.name);
  return findings;
}

std::vector<Finding> warnings_of(const Report& report) {
  std::vector<Finding> findings;
  for (const std::string& warning : report.warnings) findings.push_back({{.what = warning}, {}});
  for (const KernelReport& kernel : report.kernels)
    for (const std::string& warning : kernel.warnings)
      add(findings, {.what = warning}, kernel.name);
  return findings;
}

}  // namespace jitstep::tool::check
