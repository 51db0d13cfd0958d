// jitstep cache warm: compiles kernels before a program needs them.
#include <jit/base/lines.h>
#include <jit/base/parallel.h>
#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jit/cache/cache_folder.h>
#include <jit/source/template_data.h>
#include <jitstep/jit/engine.h>
#include <jitstep/jit/error.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "../command.h"
#include "../flag_values.h"
#include "../in_range.h"
#include "../json_output.h"
#include "../progress_line.h"
#include "../spec_plan.h"
#include "../usage.h"
#include "actions.h"
#include "wanted_kernels.h"

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

struct Result {
  std::string problem = {};  // why the kernel was not compiled
  double compile_ms = 0;
  bool from_cache = false;
};

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
  const std::vector<std::string> rejected = DiskCache::rejected(here);
  throw Error(str_cat(
      "it was compiled, but is not in the cache. ",
      rejected.empty() ? "Check the space on the disk, and JITSTEP_CACHE_DIR" : rejected.front()));
}

Result build(Engine& engine, const WantedKernel& one) {
  Result result;
  try {
    const auto built = engine.build(one.text, one.name, one.target);
    result.compile_ms = built->compile_ms;
    result.from_cache = built->from_cache;
    if (!result.from_cache) check_stored(*built);
  } catch (const Error& error) {
    result.problem = error.what();
  }
  return result;
}

std::string line_of(const WantedKernel& one, const Result& result) {
  const std::string outcome = !result.problem.empty() ? "failed: " + first_line(result.problem)
                              : result.from_cache     ? "cached"
                                                      : fixed(result.compile_ms, 0) + " ms";
  return str_cat(one.name, "  ", to_string(one.target), "  ", one.cpu, one.cpu.empty() ? "" : "  ",
                 one.tuned ? one.config + " (tuned)  " : "", outcome, "\n");
}

json json_of(const WantedKernel& one, const Result& result) {
  return {{"name", one.name},
          {"target", to_string(one.target)},
          {"cpu", one.cpu},
          {"config", one.config},
          {"tuned", one.tuned},
          {"from_cache", result.from_cache},
          {"compile_ms", result.compile_ms},
          {"problem", result.problem}};
}

// Compiles the kernels in parallel, and prints each result unless they become JSON.
std::vector<Result> build_all(const std::vector<WantedKernel>& all, Engines& engines,
                              bool as_json) {
  std::vector<Result> results(all.size());
  std::mutex printing;
  std::size_t done = 0;
  const ProgressLine progress;
  in_parallel(all.size(), [&](std::size_t i) {
    results[i] = build(engines.of(all[i].cpu), all[i]);
    const std::lock_guard lock(printing);
    if (!as_json) std::cout << line_of(all[i], results[i]) << std::flush;
    progress(done++, all.size(), all[i].name);
  });
  return results;
}

int warm(const WarmRequest& request, bool as_json) {
  const std::vector<WantedKernel> all = wanted_kernels(request);
  if (all.empty())
    throw UsageError("nothing to compile. Give a spec, --rule, --from FILE or --kernels FILE.");
  if (default_engine().settings().cache_dir.empty())
    throw Error("there is no cache folder. Set JITSTEP_CACHE_DIR.");
  Engines engines(request.cpus);
  const std::vector<Result> results = build_all(all, engines, as_json);
  const auto failed = std::count_if(results.begin(), results.end(),
                                    [](const Result& one) { return !one.problem.empty(); });
  json list = json::array();
  for (std::size_t i = 0; i < all.size(); ++i) list.push_back(json_of(all[i], results[i]));
  if (as_json)
    std::cout << json_text({{"kernels", list}});
  else
    std::cout << std::ssize(all) - failed << " of " << counted(all.size(), "kernel")
              << " in the cache\n";
  return failed == 0 ? kSuccess : kFailure;
}

}  // namespace

void add_warm(CLI::App& cache, int& status) {
  CLI::App* const command = cache.add_subcommand("warm", "Compile kernels into the cache");
  command->footer(kFooter);
  const auto request = std::make_shared<WarmRequest>();
  const auto as_json = std::make_shared<bool>(false);
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
  add_json_flag(*command, *as_json);
  command->callback([request, as_json, command, targets, &status] {
    request->by_args = has_spec_args(*command);
    request->has_targets = targets->count() > 0;
    status = warm(*request, *as_json);
  });
}

}  // namespace jitstep::tool::cache
