// jitstep cache warm: compiles kernels before a program needs them.
#include <jit/base/parallel.h>
#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jit/engine/kernel_list.h>
#include <jit/source/source_digests.h>
#include <jitstep/jit/engine.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/kernel_config.h>
#include <jitstep/jit/unit.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "../command.h"
#include "../counted.h"
#include "../flag_values.h"
#include "../json_output.h"
#include "../machine_records.h"
#include "../progress_line.h"
#include "../spec_plan.h"
#include "../usage.h"
#include "actions.h"

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
    "the default config and in recorded ones. A program writes a file for --kernels by\n"
    "  jitstep::write_kernels(optimizer.kernels(), FILE);\n\n"
    "A kernel for x86-64-v3 runs on every processor of that level. Without a compiler, a program\n"
    "prefers native kernels, then the highest level. Exit status 1: a kernel failed to compile.\n\n"
    "Example:\n"
    "  jitstep cache warm --rule adamw --state int8 --target cpu,sm_90";

struct Request {
  std::vector<std::string> specs, targets = {"cpu"}, cpus;
  std::string file, kernels;
  OptimizerArgs optimizer;  // in the place of specs; dtypes for specs that name none
  bool by_args = false, has_targets = false;  // whether they are given
  bool as_json = false;
};

// A kernel that is to be there.
struct Wanted {
  std::string name, text;
  Target target;
  std::string config = {};   // not known of a program's own
  bool tuned = false;        // a record asks for the configuration
  std::string cpu = {};      // as Settings::cpu
  std::string problem = {};  // why it is not there
  double compile_ms = 0;
  bool from_cache = false;
};

// "param" and "grad" are taken out of what from_spec takes.
RequestedOptimizer optimizer_of_line(const std::string& line, const OptimizerArgs& defaults) {
  json spec = json::parse(line, nullptr, false);
  std::string parameter = defaults.parameter, gradient = defaults.gradient;
  bool taken = false;
  const auto take = [&](const char* name, std::string& word) {
    const auto found = spec.find(name);
    if (found == spec.end()) return;
    if (!found->is_string())
      throw UsageError(str_cat("\"", name, "\" of a spec is not the name of a dtype"));
    word = found->get<std::string>();
    spec.erase(found);
    taken = true;
  };
  if (spec.is_object()) take("param", parameter), take("grad", gradient);
  RequestedOptimizer requested =
      optimizer_of_spec(taken ? spec.dump(-1, ' ', false, json::error_handler_t::replace) : line);
  requested.parameter = parameter;
  requested.gradient = gradient;
  return requested;
}

// Of large matrices, large vectors and small parameters, and of those with more dimensions, as convolutions have. A
// rule may refuse some of them, but not all.
std::vector<Plan> plans_of(const RequestedOptimizer& requested) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  const std::pair<int, std::int64_t> kinds[] = {{2, kLarge}, {1, kLarge}, {1, 1},
                                                {3, kLarge}, {4, kLarge}, {2, 1}};
  std::vector<Plan> plans;
  std::exception_ptr refused;
  for (const auto& [dims, elements] : kinds) {
    try {
      plans.push_back(plan_of(requested, dims, elements));
    } catch (const Error&) {
      if (!refused) refused = std::current_exception();
    }
  }
  if (plans.empty()) std::rethrow_exception(refused);
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
  return all;
}

// The default, and what records choose at some size.
std::vector<Wanted> variants_of(const Plan& plan, const Target& target) {
  std::vector<Wanted> all;
  const auto add = [&](const KernelConfig& config, bool tuned) {
    const Unit made = unit(plan, config, target);
    all.push_back({made.name, made.text, target, to_string(config), tuned});
  };
  add(default_kernel_config(plan, target), false);
  for (const TuningRecord& record : records_of(plan, target)) add(record.config, true);
  return all;
}

// The unit if the templates here are the program's too: the cache can say then what changes in them.
std::string text_to_compile(const KernelText& kernel) {
  try {
    const std::string here = default_engine().preprocessed_text(kernel.unit, kernel.name);
    if (code_digest(here) == code_digest(kernel.source)) return kernel.unit;
  } catch (const Error&) {  // a template is not here
  }
  return kernel.source;
}

// For their own targets, or for those that are asked for and of their kind.
std::vector<Wanted> kernels_of_program(const Request& request) {
  std::vector<Wanted> all;
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

// Those of the optimizers, and a program's own.
std::vector<Wanted> kernels_of(const Request& request) {
  std::vector<Wanted> all = kernels_of_program(request);
  for (const RequestedOptimizer& requested : optimizers_of(request))
    for (const Plan& plan : plans_of(requested))
      for (const std::string& name : request.targets)
        for (Wanted& one : variants_of(plan, parse_target(name))) all.push_back(std::move(one));
  return all;
}

// Each once, of the CPU's one for each processor.
std::vector<Wanted> wanted(const Request& request) {
  std::vector<Wanted> all;
  std::set<std::string> known;
  for (const Wanted& one : kernels_of(request)) {
    if (!known.insert(to_string(one.target) + one.text).second) continue;
    const bool cpu = one.target.kind == Target::Kind::cpu && !request.cpus.empty();
    for (const std::string& name : cpu ? request.cpus : std::vector<std::string>{""}) {
      all.push_back(one);
      all.back().cpu = name;
    }
  }
  return all;
}

// One for each processor that kernels are for, with the files of rules and codecs that have been loaded.
class Engines {
 public:
  explicit Engines(const std::vector<std::string>& cpus) {
    const TemplateStore& loaded = default_engine().templates();
    for (const std::string& cpu : cpus) {
      Settings settings = default_engine().settings();
      settings.cpu = cpu;
      auto engine = std::make_unique<Engine>(settings);
      for (const std::string& name : loaded.list(""))
        if (const auto file = loaded.kept(name)) engine->templates().keep(name, *file);
      engines_[cpu] = std::move(engine);
    }
  }

  Engine& of(const std::string& cpu) { return cpu.empty() ? default_engine() : *engines_.at(cpu); }

 private:
  std::map<std::string, std::unique_ptr<Engine>> engines_;
};

void build(Engine& engine, Wanted& one) {
  try {
    const auto built = engine.build(one.text, one.name, one.target);
    one.compile_ms = built->compile_ms;
    one.from_cache = built->from_cache;
  } catch (const Error& error) {
    one.problem = error.what();
  }
}

std::string line_of(const Wanted& one) {
  const std::string became = !one.problem.empty()
                                 ? "failed: " + one.problem.substr(0, one.problem.find('\n'))
                             : one.from_cache ? "cached"
                                              : fixed(one.compile_ms, 0) + " ms";
  return str_cat(one.name, "  ", to_string(one.target), "  ", one.cpu, one.cpu.empty() ? "" : "  ",
                 one.tuned ? one.config + " (tuned)  " : "", became, "\n");
}

json json_of(const Wanted& one) {
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
  std::vector<Wanted> all = wanted(request);
  if (all.empty())
    throw UsageError("nothing to compile. Give a spec, --rule, --from FILE or --kernels FILE.");
  if (default_engine().settings().cache_dir.empty())
    throw Error("there is no cache folder; set JITSTEP_CACHE_DIR");
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
  for (const Wanted& one : all) list.push_back(json_of(one));
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
  command->add_option("--from", request->file, "File with a spec per line")->type_name("FILE");
  command->add_option("--kernels", request->kernels, "File that jitstep::write_kernels() wrote")
      ->type_name("FILE");
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
