// The report as text: tables first, findings last.
#include <jit/base/text.h>
#include <jit/base/text_table.h>

#include <algorithm>
#include <utility>

#include "../declared_tables.h"
#include "report_summary.h"

namespace jitstep::tool::check {
namespace {

using namespace jitstep::jit;
using Rows = std::vector<std::vector<std::string>>;

// A table followed by an empty line. Empty if the table has only a header row.
std::string section(const Rows& rows, const std::vector<std::size_t>& right = {}) {
  return rows.size() < 2 ? "" : text_table(rows, right) + "\n";
}

// ---- kernels -----------------------------------------------------------------------------------

std::string verdict(const std::optional<bool>& good, const char* yes, const char* no) {
  return !good ? "-" : *good ? yes : no;
}

std::string time_of(const TargetReport& target) {
  return target.compiled ? fixed(target.compile_ms, 0) : "failed";
}

// Bytes per parameter of each part of the state: "m 1.016, v 1.016".
std::string parts_of(const StateBytes& state) {
  std::vector<std::pair<std::string, double>> parts;
  for (const SlotBytes& slot : state.slots) parts.emplace_back(slot.name, slot.all());
  parts.insert(parts.end(), {{"auxiliary", state.aux_state}, {"residual", state.residual}});
  std::erase_if(parts, [](const auto& part) { return part.second == 0; });
  return joined(parts, ", ", [](const auto& part) {
    return str_cat(part.first, " ", fixed(part.second, part.second < 0.0005 ? 6 : 3));
  });
}

// Round-trip errors: "m 0.7 %, v 0.4 %".
std::string lost(const KernelReport& kernel) {
  if (kernel.round_trips.empty()) return "-";
  return joined(kernel.round_trips, ", ", [](const RoundTrip& trip) {
    return str_cat(trip.slot, " ", fixed(100 * trip.loss, trip.loss < 0.001 ? 4 : 1), " %");
  });
}

std::string kernels(const Report& report) {
  Rows rows = {{"kernel", "contract", "bits", "launches", "bytes/parameter"}};
  const bool codec = report.manifest->kind == Manifest::Kind::codec;
  if (codec) rows[0].insert(rows[0].begin() + 3, "lost");
  const std::size_t fixed_columns = rows[0].size();
  std::vector<std::size_t> right = {fixed_columns - 2, fixed_columns - 1};
  for (const Target& target : report.targets) {
    right.push_back(rows[0].size());
    rows[0].push_back(to_string(target) + " ms");
  }
  rows[0].push_back("of which");
  for (const KernelReport& kernel : report.kernels) {
    rows.push_back({kernel.name, verdict(kernel.keeps_contract, "kept", "broken"),
                    verdict(kernel.same_bits, "the same", "different"),
                    str_cat(launches_of(*kernel.plan)), fixed(kernel.state.all, 3)});
    if (codec) rows.back().insert(rows.back().begin() + 3, lost(kernel));
    for (const TargetReport& target : kernel.targets) rows.back().push_back(time_of(target));
    rows.back().resize(fixed_columns + report.targets.size(), "-");
    rows.back().push_back(parts_of(kernel.state));
  }
  return section(rows, right);
}

// A row per entry. Cells that repeat the row above are empty.
std::string resources(const Report& report) {
  Rows rows = {{"kernel", "target", "entry", "registers", "shared", "stack", "spills"}};
  for (const KernelReport& kernel : report.kernels) {
    std::string name = kernel.name;
    for (const TargetReport& target : kernel.targets) {
      std::string where = to_string(target.target);
      for (const Resources& entry : target.entries) {
        rows.push_back({std::exchange(name, ""), std::exchange(where, ""), entry.entry,
                        str_cat(entry.registers), str_cat(entry.shared_bytes),
                        str_cat(entry.stack_bytes),
                        str_cat(entry.spill_store_bytes + entry.spill_load_bytes)});
      }
    }
  }
  return section(rows, {3, 4, 5, 6});
}

// ---- findings ----------------------------------------------------------------------------------

std::string kernels_text(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 3;
  std::vector<std::string> shown(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, names.size())));
  const std::size_t more = names.size() - shown.size();
  return joined(shown) + (more == 0 ? "" : str_cat(" and ", more, " more"));
}

std::string findings(const std::vector<Finding>& all, const char* kind) {
  std::string out;
  for (const Finding& finding : all) {
    out += str_cat(kind, ": ", finding.first.what, "\n");
    if (!finding.kernels.empty()) out += str_cat("  in ", kernels_text(finding.kernels), "\n");
    if (!finding.first.details.empty()) out += "  --json prints the compiler's whole output\n";
  }
  return out;
}

std::string conclusion(const Report& report) {
  const std::size_t errors = problems_of(report).size(), warnings = warnings_of(report).size();
  const std::string of = counted(report.kernels.size(), "kernel");
  if (errors > 0)
    return str_cat(counted(errors, "problem"), report.kernels.empty() ? "" : " in " + of, "\n");
  const std::string warned = warnings == 0 ? "" : str_cat(", ", counted(warnings, "warning"));
  if (!report.unchecked.empty())
    return str_cat("no problem in ", of, warned, ", but the check is incomplete\n");
  return str_cat("no problems: ", of, warned, "\n");
}

}  // namespace

std::string to_text(const Report& report) {
  std::string out;
  if (report.manifest != nullptr) {
    out += declared_text(*report.manifest, report.path) + kernels(report) + resources(report);
  }
  out += findings(warnings_of(report), "warning");
  out += findings(problems_of(report), "error");
  for (const std::string& what : report.unchecked) out += str_cat("not checked: ", what, "\n");
  return out + conclusion(report);
}

}  // namespace jitstep::tool::check
