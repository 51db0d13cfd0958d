// The report as JSON.
#include <jit/compiler/resource_json.h>

#include <nlohmann/json.hpp>

#include "../declared_tables.h"
#include "../json_output.h"
#include "report_summary.h"

namespace jitstep::tool::check {
namespace {

using namespace jitstep::jit;
using nlohmann::json;

json json_of(const TargetReport& report) {
  json entries = json::array();
  for (const Resources& entry : report.entries) entries.push_back(jit::json_of(entry));
  return {{"target", to_string(report.target)},
          {"compiled", report.compiled},
          {"compile_ms", report.compile_ms},
          {"from_cache", report.from_cache},
          {"entries", entries}};
}

json json_of(const std::optional<bool>& verdict) { return verdict ? json(*verdict) : json(); }

json json_of(const KernelReport& report) {
  json slots = json::object(), targets = json::array(), lost = json::object();
  for (const SlotBytes& slot : report.state.slots) slots[slot.name] = slot.all();
  for (const TargetReport& target : report.targets) targets.push_back(json_of(target));
  for (const RoundTrip& trip : report.round_trips) lost[trip.slot] = trip.loss;
  return {{"name", report.name},
          {"spec", to_string(report.plan->spec)},
          {"launches", launches_of(*report.plan)},
          {"state_bytes_per_parameter",
           {{"all", report.state.all},
            {"slots", slots},
            {"aux_state", report.state.aux_state},
            {"residual", report.state.residual}}},
          {"targets", targets},
          {"keeps_contract", json_of(report.keeps_contract)},
          {"same_bits", json_of(report.same_bits)},
          {"lost", lost}};
}

json json_of(const std::vector<Finding>& findings) {
  json all = json::array();
  for (const Finding& finding : findings)
    all.push_back({{"what", finding.first.what},
                   {"details", finding.first.details},
                   {"kernels", finding.kernels}});
  return all;
}

}  // namespace

std::string to_json(const Report& report) {
  json kernels = json::array();
  for (const KernelReport& kernel : report.kernels) kernels.push_back(json_of(kernel));
  json out = {{"file", report.path},
              {"kernels", kernels},
              {"warnings", json_of(warnings_of(report))},
              {"problems", json_of(problems_of(report))},
              {"unchecked", report.unchecked},
              {"status", static_cast<int>(report.status())}};
  if (report.manifest != nullptr) out["manifest"] = declared_json(*report.manifest);
  return json_text(out);
}

}  // namespace jitstep::tool::check
