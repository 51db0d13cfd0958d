// jitstep cache warm: kernels are compiled before somebody needs them.
#include <jit/base/parallel.h>
#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jitstep/jit/engine.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/unit.h>
#include <jitstep/jit/variant.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "../machine_records.h"
#include "../progress_line.h"
#include "../spec_plan.h"
#include "actions.h"

namespace jitstep::tool::cache {
namespace {

using namespace jitstep::jit;
using nlohmann::json;

constexpr const char* kFooter =
    "A spec is what Optimizer::from_spec takes. In a file each line is one, and may have \"param\" "
    "and \"grad\" beside:\n"
    "  {\"rule\": \"adamw\", \"state\": \"int8\", \"param\": \"bfloat16\"}\n"
    "Compiled is what large parameters, vectors and small ones need, as the default says and as "
    "tuning records\ndo. Exit status 1: one or more "
    "failed.";

struct Request {
  std::vector<std::string> specs, targets = {"cpu"};
  std::string file;
  SpecWords kernel;  // the dtypes where a spec has none
  bool as_json = false;
};

// A kernel that is to be there.
struct Wanted {
  Unit unit;
  Target target;
  Variant variant;
  bool tuned = false;        // a record asks for the variant
  std::string problem = {};  // why it is not
  double compile_ms = 0;
  bool from_cache = false;
};

// "param" and "grad" are taken out of what from_spec takes.
SpecWords words_of(const std::string& line, const SpecWords& usual) {
  SpecWords words = usual;
  words.spec = line;
  json spec = json::parse(line, nullptr, false);
  if (!spec.is_object()) return words;  // which parse_spec refuses
  const auto take = [&](const char* name, std::string& word) {
    const auto found = spec.find(name);
    if (found == spec.end()) return;
    if (!found->is_string()) throw Error(text("\"", name, "\" of a spec is no dtype's name"));
    word = found->get<std::string>();
    spec.erase(found);
  };
  take("param", words.parameter);
  take("grad", words.gradient);
  words.spec = spec.dump(-1, ' ', false, json::error_handler_t::replace);
  return words;
}

std::vector<SpecWords> specs_of(const Request& request) {
  std::vector<SpecWords> specs;
  for (const std::string& spec : request.specs) specs.push_back(words_of(spec, request.kernel));
  if (request.file.empty()) return specs;
  std::ifstream lines(request.file);
  if (!lines) throw Error(text("cannot read ", request.file, ": is it there?"));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    try {
      specs.push_back(words_of(line, request.kernel));
      plan_of_spec(specs.back());
    } catch (const Error& error) {
      throw Error(text(request.file, ":", number, ": ", error.what()));
    }
  }
  return specs;
}

// The default, and what records choose at some size.
std::vector<Wanted> variants_of(const Plan& plan, const Target& target) {
  const Variant usual = default_variant(plan, target);
  std::vector<Wanted> all = {{unit(plan, usual, target), target, usual}};
  for (const TuningRecord& record : records_of(plan, target))
    all.push_back({unit(plan, record.variant, target), target, record.variant, true});
  return all;
}

// Of large matrices, large vectors and small parameters, each kernel once.
std::vector<Wanted> wanted(const Request& request) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  const std::pair<int, std::int64_t> kinds[] = {{2, kLarge}, {1, kLarge}, {1, 1}};
  std::vector<Wanted> all;
  std::set<std::string> known;
  for (const SpecWords& words : specs_of(request))
    for (const std::string& name : request.targets)
      for (const auto& [dims, elements] : kinds) {
        const Target target = parse_target(name);
        const Plan plan = plan_of_spec(words, dims, elements);
        for (auto& one : variants_of(plan, target))
          if (known.insert(name + one.unit.text).second) all.push_back(std::move(one));
      }
  return all;
}

void build(Wanted& one) {
  try {
    const auto built = default_engine().build(one.unit.text, one.unit.name, one.target);
    one.compile_ms = built->compile_ms;
    one.from_cache = built->from_cache;
  } catch (const Error& error) {
    one.problem = error.what();
  }
}

std::string line_of(const Wanted& one) {
  const std::string became = !one.problem.empty()
                                 ? "failed: " + one.problem.substr(0, one.problem.find('\n'))
                             : one.from_cache ? "was there"
                                              : fixed(one.compile_ms, 0) + " ms";
  return text(one.unit.name, "  ", to_string(one.target), "  ",
              one.tuned ? to_string(one.variant) + " (tuned)  " : "", became, "\n");
}

json json_of(const Wanted& one) {
  return {{"name", one.unit.name},
          {"target", to_string(one.target)},
          {"variant", to_string(one.variant)},
          {"tuned", one.tuned},
          {"from_cache", one.from_cache},
          {"compile_ms", one.compile_ms},
          {"problem", one.problem}};
}

int warm(const Request& request) {
  std::vector<Wanted> all = wanted(request);
  if (all.empty()) throw Error("nothing to compile: give specs, or --from with a file of them");
  if (default_engine().settings().cache_dir.empty())
    throw Error("there is no cache folder to compile into; set JITSTEP_CACHE_DIR");
  std::mutex printing;
  std::size_t done = 0, failed = 0;
  {
    const ProgressLine progress;
    in_parallel(all.size(), [&](std::size_t i) {
      build(all[i]);
      const std::lock_guard lock(printing);
      failed += all[i].problem.empty() ? 0 : 1;
      if (!request.as_json) std::cout << line_of(all[i]) << std::flush;
      progress(done++, all.size(), all[i].unit.name);
    });
  }
  json list = json::array();
  for (const Wanted& one : all) list.push_back(json_of(one));
  if (request.as_json)
    std::cout << list.dump(2, ' ', false, json::error_handler_t::replace) << "\n";
  else
    std::cout << all.size() - failed << " of " << all.size() << " kernels are in the cache\n";
  return failed == 0 ? 0 : 1;
}

}  // namespace

void add_warm(CLI::App& cache, int& status) {
  CLI::App* const command = cache.add_subcommand(
      "warm", "Compiles the kernels of specs into the cache, several at a time");
  command->footer(kFooter);
  const auto request = std::make_shared<Request>();
  command->add_option("spec", request->specs,
                      "Specs, as {\"rule\": \"adamw\", \"state\": \"int8\"}");
  command->add_option("--from", request->file, "A file with a spec in each line");
  command->add_option("--param", request->kernel.parameter, "The parameters' dtype")
      ->capture_default_str();
  command->add_option("--grad", request->kernel.gradient, "The gradients', if it is another");
  command->add_option("--target", request->targets, "cpu, sm_ with a number, or several")
      ->delimiter(',')
      ->capture_default_str();
  command->add_flag("--json", request->as_json, "Prints an array of objects, one for each kernel");
  command->callback([request, &status] { status = warm(*request); });
}

}  // namespace jitstep::tool::cache
