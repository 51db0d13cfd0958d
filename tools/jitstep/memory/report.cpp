// Prints the estimate as a table and as JSON.
#include <jit/base/text.h>
#include <jit/base/text_table.h>

#include <nlohmann/json.hpp>

#include "../json_output.h"
#include "memory_plan.h"

namespace jitstep::tool::memory {
namespace {

using namespace jitstep::jit;
using nlohmann::json;

// torch's AdamW uses as much memory as jitstep's with fp32 state: parameters, gradients and two moments in float32.
Entry baseline(std::int64_t parameters) {
  Entry all = memory_plan({.parameters = parameters}).all;
  all.what = "torch's AdamW";
  all.format = "float32";
  return all;
}

struct Unit {
  const char* name;
  double bytes;
};
constexpr Unit kMebi{"MiB", 1 << 20}, kGibi{"GiB", 1 << 30};

std::vector<std::string> row(const Entry& entry, const Unit& unit) {
  return {entry.what, entry.format, fixed(entry.per_parameter, 4),
          fixed(static_cast<double>(entry.bytes) / unit.bytes, 2)};
}

json json_of(const Entry& entry) {
  return {{"what", entry.what},
          {"format", entry.format},
          {"bytes_per_parameter", entry.per_parameter},
          {"bytes", entry.bytes}};
}

std::string ranks_text(const RankPlan& plan, const Unit& unit) {
  const auto size = [&](std::int64_t bytes) {
    return fixed(static_cast<double>(bytes) / unit.bytes, 2);
  };
  std::vector<std::vector<std::string>> rows = {
      {"per rank", unit.name},
      {"state, largest rank", size(plan.state)},
      {"parameters received in a step", size(plan.parameters)},
      {"partial sums received in a step", size(plan.sums)}};
  if (plan.transformed > 0) rows.push_back({"host transform, both ways", size(plan.transformed)});
  return str_cat("\n", counted(plan.ranks, "rank"), " with ",
                 plan.is_cut ? "parts of tensors" : "whole tensors", ": the largest has ",
                 fixed(plan.imbalance, 4), " times an equal share\n\n", text_table(rows, {1}));
}

json ranks_json(const RankPlan& plan) {
  return {{"ranks", plan.ranks},
          {"parts_of_tensors", plan.is_cut},
          {"largest_share", plan.imbalance},
          {"state_bytes", plan.state},
          {"parameter_bytes_received", plan.parameters},
          {"sum_bytes_received", plan.sums},
          {"transform_bytes", plan.transformed}};
}

}  // namespace

std::string to_text(const MemoryPlan& plan) {
  const Entry torch = baseline(plan.parameters);
  const Unit unit = static_cast<double>(torch.bytes) < kGibi.bytes ? kMebi : kGibi;
  std::vector<std::vector<std::string>> rows = {{"", "format", "bytes/parameter", unit.name}};
  for (const Entry& entry : plan.entries) rows.push_back(row(entry, unit));
  for (const Entry& entry : {plan.all, torch}) rows.push_back(row(entry, unit));
  const double share = static_cast<double>(plan.all.bytes) / static_cast<double>(torch.bytes);
  std::string out =
      str_cat(plan.kernel.rule().name, ", ", counted(plan.parameters, "parameter"), ": ",
              fixed(100 * share, 1), " % of the memory of torch's AdamW in float32\n\n",
              text_table(rows, {2, 3}));
  if (plan.ranks) out += ranks_text(*plan.ranks, unit);
  for (const std::string& note : plan.notes) out += "\nnote: " + note + "\n";
  return out;
}

std::string to_json(const MemoryPlan& plan) {
  const KernelSpec& spec = plan.kernel.spec;
  json entries = json::array();
  for (const Entry& entry : plan.entries) entries.push_back(json_of(entry));
  json out = {{"rule", spec.rule},
                    {"parameters", plan.parameters},
                    {"parameter_dtype", to_string(spec.state.dtype)},
                    {"gradient_dtype", to_string(spec.gradient)},
                    {"weights", spec.state.weights},
                    {"parts", entries},
                    {"bytes_per_parameter", plan.all.per_parameter},
                    {"bytes", plan.all.bytes},
                    {"torch_float32_adamw", json_of(baseline(plan.parameters))},
                    {"notes", plan.notes}};
  if (plan.ranks) out["ranks"] = ranks_json(*plan.ranks);
  return json_text(out);
}

}  // namespace jitstep::tool::memory
