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

std::string percent(double fraction) { return fixed(100 * fraction, 0) + " %"; }

// ---- GPUs --------------------------------------------------------------------------------------

std::string gpu_resources(const Subject& subject, const Built& built) {
  const GpuModel& gpu = gpu_model(subject.target.sm);
  Rows rows = {{"entry", "registers", "shared", "stack", "spills", "blocks", "warps", "occupancy",
                "limited by"}};
  for (const Resources& one : built.binary.resources) {
    const Occupancy held = occupancy(gpu, one, subject.config.threads);
    rows.push_back({one.entry, str_cat(one.registers), str_cat(one.shared_bytes),
                    str_cat(one.stack_bytes), str_cat(one.spill_store_bytes + one.spill_load_bytes),
                    str_cat(held.blocks), str_cat(held.warps), percent(held.fraction), held.limit});
  }
  if (rows.size() == 1)
    return str_cat("registers are unknown: NVRTC does not support ", to_string(subject.target),
                   " and compiled PTX, which the driver compiles for the GPU\n");
  return text_table(rows, {1, 2, 3, 4, 5, 6, 7}) +
         str_cat("\nblocks, warps: per multiprocessor of sm_", gpu.sm, " (", gpu.name,
                 ") at a time. shared, stack, spills: bytes\n");
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

// The occupancy of the last launch. If the resources are unknown, that of an entry with one register and no shared
// memory.
Occupancy occupancy_of_apply(const Subject& subject, const GpuModel& gpu) {
  for (const Resources& one : subject.built()->binary.resources)
    if (one.entry == "jitstep_apply") return occupancy(gpu, one, subject.config.threads);
  return occupancy(gpu, {}, subject.config.threads);
}

// ---- the CPU -----------------------------------------------------------------------------------

struct CpuFigures {
  // A row per entry, and one row for the sum of all functions that were not inlined.
  std::vector<FunctionCounts> functions;
  LoopReport loops;  // empty for the emulation
};

std::vector<FunctionCounts> rows_of(const std::string& assembly) {
  std::vector<FunctionCounts> rows;
  FunctionCounts others{.name = "not inlined"};
  for (const FunctionCounts& one : count_functions(assembly)) {
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

CpuFigures cpu_figures(const Subject& subject) {
  LoopReport loops;
  const std::string assembly =
      subject.target.kind == Target::Kind::cpu
          ? assembly_of(subject.preprocessed, subject.unit.name, loops)
          : assembly_of(subject.preprocessed, subject.unit.name, subject.target);
  return {rows_of(assembly), loops};
}

std::string cpu_resources(const Subject& subject) {
  const CpuFigures figures = cpu_figures(subject);
  Rows rows = {{"entry", "instructions", "512 bits", "256", "128", "scalar", "stack"}};
  for (const FunctionCounts& one : figures.functions)
    rows.push_back({one.name, str_cat(one.instructions), str_cat(one.wide[0]), str_cat(one.wide[1]),
                    str_cat(one.wide[2]), str_cat(one.scalar), str_cat(one.stack_bytes)});
  std::string out = text_table(rows, {1, 2, 3, 4, 5, 6}) +
                    "\n512, 256, 128: instructions on whole vectors of this many bits\n"
                    "scalar: instructions on one floating-point number\n"
                    "stack: bytes of the largest stack frame\n";
  const LoopReport& report = figures.loops;
  for (const ScalarLoop& loop : report.scalar)
    out += str_cat("not vectorized: ", to_string(loop), "\n");
  return report.problem.empty() ? out : str_cat(out, report.problem, "\n");
}

// Without a compiler report, `scalar_loops` is null and `scalar_loops_problem` has the reason.
json scalar_loops_json(const LoopReport& report) {
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

json entries_json(const std::vector<FunctionCounts>& functions) {
  json all = json::array();
  for (const FunctionCounts& one : functions)
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
              {"bytes", built->binary.image.size()}};
  if (subject.target.is_cuda()) {
    out["entries"] = gpu_resources_json(subject, *built);
  } else {
    const CpuFigures figures = cpu_figures(subject);
    out["entries"] = entries_json(figures.functions);
    out.update(scalar_loops_json(figures.loops));
  }
  return out;
}

std::string model_text(const Subject& subject) {
  Rows rows = {{"launch", "read", "written"}};
  double all = 0;
  for (const Traffic& one : traffic(subject)) {
    rows.push_back({one.entry, fixed(one.read, 3), fixed(one.written, 3)});
    all += one.all();
  }
  std::string out =
      text_table(rows, {1, 2}) +
      str_cat("\nbytes per parameter, upper bounds. Sum of a step: ", fixed(all, 3), "\n");
  if (!subject.target.is_cuda()) return out;
  const GpuModel& gpu = gpu_model(subject.target.sm);
  const Limit most = limit(subject, gpu, occupancy_of_apply(subject, gpu));
  return out + str_cat("bandwidth bound on ", gpu.name, ", ", gpu.gigabytes_per_second,
                       " GB/s: ", fixed(most.giga_parameters, 1),
                       "e9 parameters per second\nin flight per multiprocessor: ",
                       fixed(most.in_flight / 1024, 0), " KB (", fixed(most.needed / 1024, 0),
                       " KB hide the memory latency)\nThis model does not count instructions. "
                       "tools/sass_report.py counts them in SASS.\n");
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
