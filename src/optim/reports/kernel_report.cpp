// The text of a kernel report, and lists of reports.
#include "optim/reports/kernel_report.h"

#include <algorithm>
#include <utility>

#include "jit/base/text.h"
#include "jit/engine/kernel_list.h"
#include "optim/tensor/errors.h"

namespace jitstep {
namespace {

// "0/0, 0/1, 1/0 and 12 others": group and index.
std::string names_of(const std::vector<KernelReport::Parameter>& parameters) {
  constexpr std::size_t kShown = 8;
  const std::size_t shown = std::min(parameters.size(), kShown);
  const std::vector<KernelReport::Parameter> first(parameters.begin(),
                                                   parameters.begin() + std::ptrdiff_t(shown));
  std::string names = jit::joined(
      first, ", ", [](const auto& one) { return jit::str_cat(one.group, "/", one.index); });
  if (shown < parameters.size())
    names += jit::str_cat(" and ", parameters.size() - shown, " others");
  return names;
}

}  // namespace

std::string KernelReport::text() const {
  std::string lines = jit::str_cat(
      name(), " for ", jit::to_string(target()), " on ", device, "\n  key        ", built->key,
      "\n  made       ", built->from_cache ? "found in the cache" : "compiled", ", ",
      built->compile_ms, " ms, ", binary().size(), " bytes\n  config     ",
      jit::to_string(how.config), ": ", how.why, "\n  parameters ", parameters.size(),
      " (group/index ", names_of(parameters), ")\n");
  for (const jit::Resources& one : resources())
    lines += jit::str_cat("  ", one.entry, ": ", one.registers, " registers, ", one.shared_bytes,
                          " bytes shared, ", one.stack_bytes, " stack, ",
                          one.spill_store_bytes + one.spill_load_bytes, " spilled\n");
  return lines;
}

void add_kernel(std::vector<KernelReport>& reports, KernelReport one) {
  const auto same = std::find_if(reports.begin(), reports.end(), [&](const KernelReport& known) {
    return known.built->key == one.built->key && known.device == one.device;
  });
  if (same == reports.end()) return reports.push_back(std::move(one));
  same->parameters.insert(same->parameters.end(), one.parameters.begin(), one.parameters.end());
}

void write_kernels(const std::vector<KernelReport>& kernels, const std::string& file) {
  std::vector<std::shared_ptr<const jit::Built>> built;
  for (const KernelReport& one : kernels) built.push_back(one.built);
  as_torch_error([&] { jit::write_kernel_list(built, file); });
}

}  // namespace jitstep
