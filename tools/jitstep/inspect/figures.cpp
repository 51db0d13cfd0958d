#include "figures.h"

#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jit/compiler/resource_json.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "../compilers.h"
#include "assembly.h"
#include "gpu_model.h"
#include "traffic.h"

namespace jitstep::tool::inspect {
namespace {

using namespace jitstep::jit;
using nlohmann::json;
using Rows = std::vector<std::vector<std::string>>;

std::string word(int number) { return std::to_string(number); }

std::string percent(double fraction) { return fixed(100 * fraction, 0) + " %"; }

// ---- GPUs --------------------------------------------------------------------------------------

std::string gpu_resources(const Subject& subject, const Built& built) {
  const GpuModel& gpu = gpu_model(subject.target.sm);
  Rows rows = {{"entry", "registers", "shared", "stack", "spills", "blocks", "warps", "occupancy",
                "kept there by"}};
  for (const Resources& one : built.binary.resources) {
    const Occupancy held = occupancy(gpu, one, subject.config.threads);
    rows.push_back({one.entry, word(one.registers), word(one.shared_bytes), word(one.stack_bytes),
                    word(one.spill_store_bytes + one.spill_load_bytes), word(held.blocks),
                    word(held.warps), percent(held.fraction), held.limit});
  }
  if (rows.size() == 1)
    return str_cat("NVRTC does not know ", to_string(subject.target),
                   " and made PTX, which the driver compiles: nobody here knows its registers\n");
  return text_table(rows, {1, 2, 3, 4, 5, 6, 7}) +
         str_cat("\nblocks and warps: that a multiprocessor of sm_", gpu.sm, " (", gpu.name,
                 ") holds at a time. shared, stack, spills: bytes\n");
}

json gpu_resources_json(const Subject& subject, const Built& built) {
  const GpuModel& gpu = gpu_model(subject.target.sm);
  json all = json::array();
  for (const Resources& one : built.binary.resources) {
    const Occupancy held = occupancy(gpu, one, subject.config.threads);
    json entry = json_of(one);
    entry.update({{"blocks", held.blocks},
                  {"warps", held.warps},
                  {"occupancy", held.fraction},
                  {"limited_by", held.limit}});
    all.push_back(std::move(entry));
  }
  return all;
}

// The last launch's; one block where it is not known.
Occupancy occupancy_of_apply(const Subject& subject, const GpuModel& gpu) {
  for (const Resources& one : subject.built()->binary.resources)
    if (one.entry == "jitstep_apply") return occupancy(gpu, one, subject.config.threads);
  return occupancy(gpu, {}, subject.config.threads);
}

// ---- the CPU -----------------------------------------------------------------------------------

// What was not inlined into the entries is one row.
std::vector<FunctionCounts> cpu_functions(const Subject& subject) {
  std::vector<FunctionCounts> rows;
  FunctionCounts others{.name = "not inlined"};
  for (const FunctionCounts& one :
       count_functions(assembly_of(subject.preprocessed, subject.unit.name, subject.target))) {
    if (one.is_entry) {
      rows.push_back(one);
      continue;
    }
    others.instructions += one.instructions;
    others.scalar += one.scalar;
    others.stack_bytes = std::max(others.stack_bytes, one.stack_bytes);
    for (int i = 0; i < 3; ++i) others.wide[i] += one.wide[i];
  }
  if (others.instructions > 0) rows.push_back(others);
  return rows;
}

LoopReport loop_report(const Subject& subject) {
  if (subject.target.kind != Target::Kind::cpu) return {};
  return loop_report_of(subject.preprocessed, subject.unit.name, Settings::from_environment());
}

std::string cpu_resources(const Subject& subject) {
  Rows rows = {{"entry", "instructions", "512 bits", "256", "128", "scalar", "stack"}};
  for (const FunctionCounts& one : cpu_functions(subject))
    rows.push_back({one.name, word(one.instructions), word(one.wide[0]), word(one.wide[1]),
                    word(one.wide[2]), word(one.scalar), word(one.stack_bytes)});
  std::string out =
      text_table(rows, {1, 2, 3, 4, 5, 6}) +
      "\n512, 256, 128: instructions of whole vectors of so many bits; scalar: of one "
      "floating-point number;\nstack: bytes of the largest frame\n";
  const LoopReport report = loop_report(subject);
  for (const ScalarLoop& loop : report.scalar)
    out += str_cat("not vectorized: ", to_string(loop), "\n");
  return report.problem.empty() ? out : str_cat(out, report.problem, "\n");
}

// `scalar_loops` is null where nobody knows, with the reason beside it.
json scalar_loops_json(const Subject& subject) {
  const LoopReport report = loop_report(subject);
  if (!report.problem.empty())
    return {{"scalar_loops", nullptr}, {"scalar_loops_problem", report.problem}};
  json all = json::array();
  for (const ScalarLoop& loop : report.scalar)
    all.push_back({{"loop", loop.what},
                   {"file", loop.location.file},
                   {"line", loop.location.line},
                   {"reason", loop.reason}});
  return {{"scalar_loops", all}};
}

json cpu_resources_json(const Subject& subject) {
  json all = json::array();
  for (const FunctionCounts& one : cpu_functions(subject))
    all.push_back({{"entry", one.name},
                   {"instructions", one.instructions},
                   {"vector_512", one.wide[0]},
                   {"vector_256", one.wide[1]},
                   {"vector_128", one.wide[2]},
                   {"scalar", one.scalar},
                   {"stack_bytes", one.stack_bytes}});
  return all;
}

}  // namespace

std::string resources_text(const Subject& subject) {
  return subject.target.is_cuda() ? gpu_resources(subject, *subject.built())
                                  : cpu_resources(subject);
}

json resources_json(const Subject& subject) {
  const auto built = subject.built();
  json out = {{"compile_ms", built->compile_ms},
              {"from_cache", built->from_cache},
              {"bytes", built->binary.image.size()},
              {"entries", subject.target.is_cuda() ? gpu_resources_json(subject, *built)
                                                   : cpu_resources_json(subject)}};
  if (!subject.target.is_cuda()) out.update(scalar_loops_json(subject));
  return out;
}

std::string model_text(const Subject& subject) {
  Rows rows = {{"launch", "read", "written"}};
  double all = 0;
  for (const Traffic& one : traffic(subject)) {
    rows.push_back({one.entry, fixed(one.read, 3), fixed(one.written, 3)});
    all += one.all();
  }
  std::string out = text_table(rows, {1, 2}) +
                    str_cat("\nbytes for each parameter, at most; ", fixed(all, 3), " in a step\n");
  if (!subject.target.is_cuda()) return out;
  const GpuModel& gpu = gpu_model(subject.target.sm);
  const Limit most = limit(subject, gpu, occupancy_of_apply(subject, gpu));
  return out + str_cat("limit on ", gpu.name, ", ", gpu.gigabytes_per_second,
                       " GB/s: ", fixed(most.giga_parameters, 1),
                       "e9 parameters a second, as far as memory goes\nin flight: ",
                       fixed(most.in_flight / 1024, 0), " KB to a multiprocessor; ",
                       fixed(most.needed / 1024, 0),
                       " KB hide the memory's latency\nInstructions are not counted here; "
                       "tools/sass_report.py reads them in the SASS.\n");
}

json model_json(const Subject& subject) {
  json launches = json::array();
  for (const Traffic& one : traffic(subject))
    launches.push_back({{"entry", one.entry}, {"read", one.read}, {"written", one.written}});
  json out = {{"launches", launches}};
  if (!subject.target.is_cuda()) return out;
  const GpuModel& gpu = gpu_model(subject.target.sm);
  const Limit most = limit(subject, gpu, occupancy_of_apply(subject, gpu));
  out.update({{"gpu", gpu.name},
              {"gigabytes_per_second", gpu.gigabytes_per_second},
              {"parameters_per_second", 1e9 * most.giga_parameters},
              {"bytes_in_flight", most.in_flight},
              {"bytes_needed_in_flight", most.needed}});
  return out;
}

}  // namespace jitstep::tool::inspect
