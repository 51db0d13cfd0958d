// jitstep cache warm: compiles kernels before a program needs them.
#include <jit/base/lines.h>
#include <jit/base/parallel.h>
#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jit/cache/cache_folder.h>
#include <jit/codegen/unit.h>
#include <jit/engine/kernel_list.h>
#include <jit/source/source_digests.h>
#include <jitstep/jit/engine.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/kernel_config.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "../command.h"
#include "../flag_values.h"
#include "../in_range.h"
#include "../json_output.h"
#include "../machine_records.h"
#include "../progress_line.h"
#include "../spec_plan.h"
#include "../usage.h"
#include "actions.h"
#include "jit/source/template_data.h"

namespace jitstep::tool::cache {
namespace {

using namespace jitstep::jit;
using nlohmann::json;

constexpr const char* kFooter =
    "A spec is what Optimizer::from_spec() reads. A path to a rule or codec may stand for its "
    "name.\n"
    "--from reads a file with a spec per line, which may also have \"param\" and \"grad\":\n"
    "  {\"rule\": \"adamw\", \"state\": \"int8\", \"param\": \"bfloat16\"}\n"
    "jitstep compiles the kernels of large and small parameters with one and more dimensions, in\n"
    "the default launch configuration and in those of tuning records. A program writes a file\n"
    "for --kernels by\n"
    "  jitstep::write_kernels(optimizer.kernels(), FILE);\n\n"
    "A kernel for x86-64-v3 runs on every processor of that level. Without a compiler, a program\n"
    "prefers native kernels, then the highest level. Exit status 1: a kernel failed to compile.\n\n"
    "Example:\n"
    "  jitstep cache warm --rule adamw --state int8 --target cpu,sm_90";

struct Request {
  std::vector<std::string> specs, targets = {"cpu"}, cpus;
  std::string file, kernels;
  OptimizerArgs optimizer;   // an optimizer by flags, and the default dtypes of specs
  bool by_args = false;      // whether flags name an optimizer
  bool has_targets = false;  // whether --target is given
  bool as_json = false;
};

// A kernel to compile, and the result.
struct WantedKernel {
  std::string name, text;
  Target target;
  std::string config = {};   // empty for a kernel from --kernels
  bool tuned = false;        // the config comes from a tuning record
  std::string cpu = {};      // as Settings::cpu
  std::string problem = {};  // why it was not compiled
  double compile_ms = 0;
  bool from_cache = false;
};

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

std::vector<RequestedOptimizer> optimizers_of(const Request& request) {
  std::vector<RequestedOptimizer> all;
  for (const std::string& spec : request.specs)
    all.push_back(optimizer_of_line(spec, request.optimizer));
  if (request.by_args) all.push_back(optimizer_of_args(request.optimizer));
  if (request.file.empty()) return all;
  std::ifstream lines(request.file);
  if (!lines) throw Error(str_cat("cannot read ", request.file, ": ", std::strerror(errno)));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    try {
      all.push_back(optimizer_of_line(line, request.optimizer));
      plans_of(all.back());
    } catch (const Error& error) {
      throw Error(str_cat(request.file, ":", number, ": ", error.what()));
    }
  }
  if (lines.bad()) throw Error(str_cat("cannot read ", request.file, ". Is it a file?"));
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

// The kernels of --kernels: for the requested targets of the same kind, or without --target for their own.
std::vector<WantedKernel> kernels_of_program(const Request& request) {
  std::vector<WantedKernel> all;
  if (request.kernels.empty()) return all;
  for (const KernelText& kernel : read_kernel_list(request.kernels)) {
    std::vector<Target> targets = {kernel.target};
    if (request.has_targets) targets.clear();
    for (const std::string& name : request.targets)
      if (const Target target = parse_target(name);
          request.has_targets && target.kind == kernel.target.kind)
        targets.push_back(target);
    for (const Target& target : targets)
      all.push_back({kernel.name, text_to_compile(kernel), target});
  }
  return all;
}

// The kernels of the program and of the optimizers.
std::vector<WantedKernel> kernels_of(const Request& request) {
  std::vector<WantedKernel> all = kernels_of_program(request);
  for (const RequestedOptimizer& requested : optimizers_of(request))
    for (const Plan& plan : plans_of(requested))
      for (const std::string& name : request.targets)
        for (WantedKernel& one : configs_of(plan, parse_target(name)))
          all.push_back(std::move(one));
  return all;
}

// Each kernel once per target. CPU kernels once per requested processor.
std::vector<WantedKernel> wanted(const Request& request) {
  std::vector<WantedKernel> all;
  std::set<std::string> known;
  std::vector<std::string> cpus;
  for (const std::string& name : request.cpus)
    if (std::find(cpus.begin(), cpus.end(), name) == cpus.end()) cpus.push_back(name);
  for (const WantedKernel& one : kernels_of(request)) {
    if (!known.insert(to_string(one.target) + one.text).second) continue;
    const bool cpu = one.target.kind == Target::Kind::cpu && !cpus.empty();
    for (const std::string& name : cpu ? cpus : std::vector<std::string>{""}) {
      all.push_back(one);
      all.back().cpu = name;
    }
  }
  return all;
}

// One engine per requested processor. Each has the rule and codec files that the default engine has loaded.
class Engines {
 public:
  explicit Engines(const std::vector<std::string>& cpus) {
    const TemplateStore& loaded = default_engine().templates();
    for (const std::string& cpu : cpus) {
      Settings settings = default_engine().settings();
      settings.cpu = cpu;
      auto engine = std::make_unique<Engine>(settings);
      for (const std::string& name : loaded.list(""))
        if (const auto file = loaded.data().loaded(name))
          engine->templates().data().add_loaded(name, *file);
      engines_[cpu] = std::move(engine);
    }
  }

  Engine& of(const std::string& cpu) { return cpu.empty() ? default_engine() : *engines_.at(cpu); }

 private:
  std::map<std::string, std::unique_ptr<Engine>> engines_;
};

// The engine only warns if it cannot store a kernel.
void check_stored(const Built& built) {
  const Settings here = settings();
  const std::string file = entry_path(here.cache_dir, built.key);
  if (std::filesystem::exists(file)) return;
  const std::vector<std::string> rejected = DiskCache(here).rejected();
  throw Error(str_cat(
      "it was compiled, but is not in the cache. ",
      rejected.empty() ? "Check the space on the disk, and JITSTEP_CACHE_DIR" : rejected.front()));
}

void build(Engine& engine, WantedKernel& one) {
  try {
    const auto built = engine.build(one.text, one.name, one.target);
    one.compile_ms = built->compile_ms;
    one.from_cache = built->from_cache;
    if (!one.from_cache) check_stored(*built);
  } catch (const Error& error) {
    one.problem = error.what();
  }
}

std::string line_of(const WantedKernel& one) {
  const std::string result = !one.problem.empty() ? "failed: " + first_line(one.problem)
                             : one.from_cache     ? "cached"
                                                  : fixed(one.compile_ms, 0) + " ms";
  return str_cat(one.name, "  ", to_string(one.target), "  ", one.cpu, one.cpu.empty() ? "" : "  ",
                 one.tuned ? one.config + " (tuned)  " : "", result, "\n");
}

json json_of(const WantedKernel& one) {
  return {{"name", one.name},
          {"target", to_string(one.target)},
          {"cpu", one.cpu},
          {"config", one.config},
          {"tuned", one.tuned},
          {"from_cache", one.from_cache},
          {"compile_ms", one.compile_ms},
          {"problem", one.problem}};
}

int warm(const Request& request) {
  std::vector<WantedKernel> all = wanted(request);
  if (all.empty())
    throw UsageError("nothing to compile. Give a spec, --rule, --from FILE or --kernels FILE.");
  if (default_engine().settings().cache_dir.empty())
    throw Error("there is no cache folder. Set JITSTEP_CACHE_DIR.");
  Engines engines(request.cpus);
  std::mutex printing;
  std::size_t done = 0, failed = 0;
  {
    const ProgressLine progress;
    in_parallel(all.size(), [&](std::size_t i) {
      build(engines.of(all[i].cpu), all[i]);
      const std::lock_guard lock(printing);
      failed += all[i].problem.empty() ? 0 : 1;
      if (!request.as_json) std::cout << line_of(all[i]) << std::flush;
      progress(done++, all.size(), all[i].name);
    });
  }
  json list = json::array();
  for (const WantedKernel& one : all) list.push_back(json_of(one));
  if (request.as_json)
    std::cout << json_text({{"kernels", list}});
  else
    std::cout << all.size() - failed << " of " << counted(all.size(), "kernel")
              << " in the cache\n";
  return failed == 0 ? kSuccess : kFailure;
}

}  // namespace

void add_warm(CLI::App& cache, int& status) {
  CLI::App* const command = cache.add_subcommand("warm", "Compile kernels into the cache");
  command->footer(kFooter);
  const auto request = std::make_shared<Request>();
  CLI::Option* const spec =
      command
          ->add_option("spec", request->specs,
                       "Optimizers as JSON, as in {\"rule\": \"adamw\", \"state\": \"int8\"}")
          ->type_name("SPEC");
  add_spec_args(*command, *spec, request->optimizer);
  command->add_option("--from", request->file, "File with a spec per line")
      ->type_name("FILE")
      ->check(not_empty());
  command->add_option("--kernels", request->kernels, "File that jitstep::write_kernels() wrote")
      ->type_name("FILE")
      ->check(not_empty());
  CLI::Option* const targets =
      command->add_option("--target", request->targets, "cpu, emulated or sm_ with a number")
          ->type_name("TARGET,...")
          ->allow_extra_args(false)
          ->delimiter(',')
          ->check(is_target())
          ->capture_default_str();
  command->add_option("--cpu", request->cpus, "Processors of CPU kernels: native, x86-64-v3, ...")
      ->type_name("LEVEL,...")
      ->allow_extra_args(false)
      ->delimiter(',')
      ->check(one_of(values_of("--cpu")));
  add_json_flag(*command, request->as_json);
  command->callback([request, command, targets, &status] {
    request->by_args = has_spec_args(*command);
    request->has_targets = targets->count() > 0;
    status = warm(*request);
  });
}

}  // namespace jitstep::tool::cache
