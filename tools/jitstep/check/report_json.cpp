// A report for programs.
#include <cmath>
#include <nlohmann/json.hpp>

#include "../declared.h"
#include "report_summary.h"

namespace jitstep::tool::check {
namespace {

using namespace jitstep::jit;
using nlohmann::json;

json json_of(const Value& value) {
  if (value.is_bool()) return value.boolean();
  if (value.is_number()) return value.number();
  if (value.is_choice()) return value.choice();
  if (!value.is_numbers()) return nullptr;
  json numbers = json::array();
  for (const double x : value.numbers()) numbers.push_back(std::isnan(x) ? json() : json(x));
  return numbers;
}

json json_of(const std::optional<Expression>& condition) {
  return condition ? json(condition->written()) : json();
}

json options_of(const Manifest& manifest) {
  json all = json::array();
  for (const auto* some : {&manifest.hyper, &manifest.flags})
    for (const Option& option : *some)
      all.push_back({{"name", option.name},
                     {"default", option.lifted ? json() : json_of(option.initial)},
                     {"computed", option.lifted.has_value()},
                     {"takes", taken_by(option)},
                     {"note", option.note}});
  return all;
}

json slots_of(const Manifest& manifest) {
  json all = json::array();
  for (const Slot& slot : manifest.slots)
    all.push_back({{"name", slot.name},
                   {"signed", slot.is_signed},
                   {"torch", slot.torch_name},
                   {"if", json_of(slot.condition)}});
  return all;
}

json memory_of(const Manifest& manifest) {
  json all = json::array();
  for (const MemoryField& field : manifest.memory)
    all.push_back({{"name", field.name},
                   {"domain", to_string(field.domain)},
                   {"type", field.is_double ? "double" : "real"},
                   {"torch", field.torch_name},
                   {"if", json_of(field.condition)}});
  return all;
}

json json_of(const Manifest& manifest) {
  return {{"kind", kind_of(manifest)},       {"name", manifest.name},
          {"class", manifest.class_name},    {"description", manifest.description},
          {"options", options_of(manifest)}, {"slots", slots_of(manifest)},
          {"memory", memory_of(manifest)}};
}

json json_of(const TargetReport& report) {
  json entries = json::array();
  for (const Resources& entry : report.entries)
    entries.push_back({{"entry", entry.entry},
                       {"registers", entry.registers},
                       {"shared_bytes", entry.shared_bytes},
                       {"stack_bytes", entry.stack_bytes},
                       {"spill_store_bytes", entry.spill_store_bytes},
                       {"spill_load_bytes", entry.spill_load_bytes}});
  return {{"target", to_string(report.target)},
          {"compiled", report.compiled},
          {"compile_ms", report.compile_ms},
          {"from_cache", report.from_cache},
          {"entries", entries}};
}

json json_of(const std::optional<bool>& verdict) { return verdict ? json(*verdict) : json(); }

json json_of(const KernelReport& report) {
  json slots = json::object(), targets = json::array();
  for (const SlotBytes& slot : report.state.slots) slots[slot.name] = slot.all();
  for (const TargetReport& target : report.targets) targets.push_back(json_of(target));
  return {{"name", report.name},
          {"spec", to_string(report.plan->spec)},
          {"launches", launches_of(*report.plan)},
          {"state_bytes_per_parameter",
           {{"all", report.state.all},
            {"slots", slots},
            {"memory", report.state.memory},
            {"extra", report.state.extra}}},
          {"targets", targets},
          {"keeps_contract", json_of(report.keeps_contract)},
          {"same_bits", json_of(report.same_bits)}};
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
  if (report.manifest != nullptr) out["manifest"] = json_of(*report.manifest);
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace jitstep::tool::check
