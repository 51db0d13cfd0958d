#include "wanted_kernels.h"

#include <jit/base/text.h>
#include <jit/codegen/unit.h>
#include <jit/engine/kernel_list.h>
#include <jit/source/source_digests.h>
#include <jitstep/jit/engine.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/kernel_config.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "../machine_records.h"
#include "../spec_plan.h"
#include "../usage.h"

namespace jitstep::tool::cache {
namespace {

using namespace jitstep::jit;
using nlohmann::json;

// ---- optimizers --------------------------------------------------------------------------------

// Reads "param" and "grad" of a line and removes them, because from_spec() does not accept them.
RequestedOptimizer optimizer_of_line(const std::string& line, const OptimizerArgs& defaults) {
  json spec = json::parse(line, nullptr, false);
  std::string parameter = defaults.parameter, gradient = defaults.gradient;
  bool extracted = false;
  const auto extract = [&](const char* name, std::string& dtype) {
    const auto found = spec.find(name);
    if (found == spec.end()) return;
    if (!found->is_string())
      throw UsageError(str_cat("\"", name, "\" of a spec is not the name of a dtype"));
    dtype = found->get<std::string>();
    spec.erase(found);
    extracted = true;
  };
  if (spec.is_object()) {
    extract("param", parameter);
    extract("grad", gradient);
  }
  RequestedOptimizer requested = optimizer_of_spec(
      extracted ? spec.dump(-1, ' ', false, json::error_handler_t::replace) : line);
  requested.parameter = parameter;
  requested.gradient = gradient;
  return requested;
}

// Plans for large matrices, large vectors, small parameters, and large parameters with 3 and 4 dimensions, as
// convolutions have. A rule may reject some of these shapes. If it rejects all, the first error is thrown.
std::vector<Plan> plans_of(const RequestedOptimizer& requested) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  const std::pair<int, std::int64_t> kinds[] = {{2, kLarge}, {1, kLarge}, {1, 1},
                                                {3, kLarge}, {4, kLarge}, {2, 1}};
  std::vector<Plan> plans;
  std::exception_ptr first_error;
  for (const auto& [dims, elements] : kinds) {
    try {
      plans.push_back(plan_of(requested, dims, elements));
    } catch (const Error&) {
      if (!first_error) first_error = std::current_exception();
    }
  }
  if (plans.empty()) std::rethrow_exception(first_error);
  return plans;
}

// The lines of a file that are not blank, with their numbers. None without a name.
std::vector<std::pair<int, std::string>> lines_of(const std::string& file) {
  std::vector<std::pair<int, std::string>> found;
  if (file.empty()) return found;
  std::ifstream lines(file);
  if (!lines) throw Error(str_cat("cannot read ", file, ": ", std::strerror(errno)));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") != line.npos) found.emplace_back(number, line);
  }
  if (lines.bad()) throw Error(str_cat("cannot read ", file, ". Is it a file?"));
  return found;
}

// The plans of all requested optimizers.
std::vector<Plan> plans_of(const WarmRequest& request) {
  std::vector<Plan> all;
  const auto add = [&](const RequestedOptimizer& optimizer) {
    for (Plan& plan : plans_of(optimizer)) all.push_back(std::move(plan));
  };
  for (const std::string& spec : request.specs) add(optimizer_of_line(spec, request.optimizer));
  if (request.by_args) add(optimizer_of_args(request.optimizer));
  for (const auto& [number, line] : lines_of(request.file)) {
    try {
      add(optimizer_of_line(line, request.optimizer));
    } catch (const Error& error) {
      throw Error(str_cat(request.file, ":", number, ": ", error.what()));
    }
  }
  return all;
}

// The kernel in the default config, and in the config of each tuning record of any size.
std::vector<WantedKernel> configs_of(const Plan& plan, const Target& target) {
  std::vector<WantedKernel> all;
  const auto add = [&](const KernelConfig& config, bool tuned) {
    const Unit generated = unit(plan, config, target);
    all.push_back({generated.name, generated.text, target, to_string(config), tuned});
  };
  add(default_kernel_config(plan, target), false);
  for (const TuningRecord& record : records_of(plan, target)) add(record.config, true);
  return all;
}

// ---- kernels of a program ----------------------------------------------------------------------

// The translation unit if it gives the program's source with the current templates, else the preprocessed source. With
// a translation unit, the cache entry lists its templates, so that `jitstep cache explain` can report changes in them.
std::string text_to_compile(const KernelText& kernel) {
  try {
    const std::string here = default_engine().preprocessed_text(kernel.unit, kernel.name);
    if (code_digest(here) == code_digest(kernel.source)) return kernel.unit;
  } catch (const Error&) {  // a template of the program is not available here
  }
  return kernel.source;
}

// The requested targets of the same kind as the kernel's. Without --target, its own.
std::vector<Target> targets_of(const KernelText& kernel, const WarmRequest& request) {
  if (!request.has_targets) return {kernel.target};
  std::vector<Target> targets;
  for (const std::string& name : request.targets)
    if (const Target target = parse_target(name); target.kind == kernel.target.kind)
      targets.push_back(target);
  return targets;
}

std::vector<WantedKernel> kernels_of_program(const WarmRequest& request) {
  std::vector<WantedKernel> all;
  if (request.kernels.empty()) return all;
  for (const KernelText& kernel : read_kernel_list(request.kernels))
    for (const Target& target : targets_of(kernel, request))
      all.push_back({kernel.name, text_to_compile(kernel), target});
  return all;
}

// ---- both --------------------------------------------------------------------------------------

std::vector<WantedKernel> kernels_of(const WarmRequest& request) {
  std::vector<WantedKernel> all = kernels_of_program(request);
  for (const Plan& plan : plans_of(request))
    for (const std::string& name : request.targets)
      for (WantedKernel& one : configs_of(plan, parse_target(name))) all.push_back(std::move(one));
  return all;
}

// The requested processors, each once. Without any: an empty name, which leaves the choice to the engine.
std::vector<std::string> processors_of(const WarmRequest& request) {
  std::vector<std::string> cpus;
  for (const std::string& name : request.cpus)
    if (std::find(cpus.begin(), cpus.end(), name) == cpus.end()) cpus.push_back(name);
  return cpus.empty() ? std::vector<std::string>{""} : cpus;
}

}  // namespace

std::vector<WantedKernel> wanted_kernels(const WarmRequest& request) {
  std::vector<WantedKernel> all;
  std::set<std::string> known;
  const std::vector<std::string> cpus = processors_of(request), any = {""};
  for (WantedKernel& one : kernels_of(request)) {
    if (!known.insert(to_string(one.target) + one.text).second) continue;
    for (const std::string& cpu : one.target.kind == Target::Kind::cpu ? cpus : any) {
      one.cpu = cpu;
      all.push_back(one);
    }
  }
  return all;
}

}  // namespace jitstep::tool::cache
