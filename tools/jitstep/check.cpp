// jitstep check: tests a file with a rule or a codec.
#include <emulation/option_covering_set.h>
#include <jit/base/text.h>
#include <jitstep/jit/error.h>

#include <functional>
#include <iostream>
#include <map>
#include <memory>

#include "check/kernel_check.h"
#include "check/kernels.h"
#include "check/report.h"
#include "check/request.h"
#include "check/scalar_loops.h"
#include "check/unused_options.h"
#include "check/workbench.h"
#include "command.h"
#include "flag_values.h"
#include "in_range.h"
#include "progress_line.h"
#include "usage.h"
#include "workload_args.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
using check::Report;
using check::Request;

constexpr const char* kFooter =
    "jitstep runs a rule with its default options in every state format, in float64 and bfloat16,\n"
    "and in float32 with options that set each flag. It runs a codec with adamw, lamb and sgd.\n"
    "Each kernel is compiled for the CPU, for the GPU targets (needs NVRTC, but no GPU) and for "
    "an\n"
    "emulated GPU. It is checked against the contract, as with JITSTEP_CHECK=1. Steps of small\n"
    "tensors must give the same bits on the CPU and on the emulated GPU. For a codec, the column\n"
    "`lost` is the share of a value that encoding loses. More than its bits allow is an error,\n"
    "which ends the check of the codec.\n\n"
    "Exit status: 0 success, 1 the file has an error, 2 usage error, 3 incomplete check: no error\n"
    "was found, but a compiler is missing or no options set a flag. Warnings do not count.\n\n"
    "Examples:\n"
    "  jitstep check mine.cuh\n"
    "  jitstep check mine.cuh --states fp32,int8 --weights stochastic --target cpu";

// Why kernels for a target cannot be compiled here. Throws an Error if NVRTC exists but does not support the target.
std::string problem_of(const Target& target) {
  const Target known = Target::cuda(90);  // every NVRTC that jitstep accepts supports it
  const std::string problem = check::compiler_problem(target);
  if (!problem.empty() && target.is_cuda() && check::compiler_problem(known).empty())
    throw Error(problem);
  return problem;
}

// The targets that can be compiled for, the CPU first. Adds the other targets to the report.
std::vector<Target> usable(const Request& request, Report& report) {
  std::vector<Target> requested = {Target::cpu()}, targets;
  std::map<std::string, std::vector<std::string>> missing;  // target names by problem
  requested.insert(requested.end(), request.targets.begin(), request.targets.end());
  for (const Target& target : requested) {
    const std::string problem = problem_of(target);
    if (problem.empty()) targets.push_back(target);
    if (!problem.empty()) missing[problem].push_back(to_string(target));
  }
  for (const auto& [problem, names] : missing)
    report.unchecked.push_back(str_cat(joined(names), ": ", problem));
  return targets;
}

// The kernels of all choices. Adds a problem to the report for each choice that gives no kernel.
std::vector<check::Candidate> candidates(const std::vector<check::Choice>& choices,
                                         const Catalog& catalog, Report& report) {
  std::vector<check::Candidate> all;
  for (const check::Choice& choice : choices) {
    try {
      all.push_back(check::candidate(choice, catalog));
    } catch (const Error& error) {
      report.problems.push_back({.what = error.what()});
    }
  }
  return all;
}

// Reports flags that the covering set does not reach, because no kernel with them is checked.
void report_unreached(const Catalog& catalog, Report& report) {
  if (report.manifest->kind != Manifest::Kind::rule) return;
  if (const auto flags = emulation::unreached_flags(*report.manifest, catalog); !flags.empty())
    report.unchecked.push_back(str_cat("kernels with ", joined(flags),
                                       ": jitstep found no options that set these flags. Simplify "
                                       "their conditions, or use `jitstep compile`."));
}

void warn_of_unused_options(const TemplateStore& store, Report& report) {
  for (const std::string& name : check::unused_options(*report.manifest, store))
    report.warnings.push_back(
        str_cat("the rule declares `", name, "`, but does not use it. Remove it."));
}

void check_file(const Request& request, check::Workbenches& benches, Report& report) {
  report.targets = usable(request, report);  // first, because it may throw and the rest is slow
  report_unreached(benches.plain.catalog, report);
  warn_of_unused_options(benches.plain.engine.templates(), report);
  const auto choices = check::choices(*report.manifest, request, benches);
  const auto kernels = candidates(choices, benches.plain.catalog, report);
  if (report.targets.empty() || report.targets[0] != Target::cpu()) return;
  const ProgressLine progress;
  report.kernels = check::check_kernels(kernels, {report.targets.begin() + 1, report.targets.end()},
                                        benches, std::cref(progress));
  check::warn_of_scalar_loops(kernels, benches.plain, report.kernels);
}

int run(const Request& request) {
  check::Workbenches benches;
  Report report{.path = request.file};
  try {
    report.manifest = &benches.load(request.file);
  } catch (const Error& error) {
    report.problems.push_back({.what = error.what()});
  }
  if (report.manifest != nullptr) as_usage([&] { check_file(request, benches, report); });
  std::cout << (request.json ? to_json(report) : to_text(report));
  return report.status();
}

CLI::Validator is_compiled_target() {
  return CLI::Validator(
      [](const std::string& target) {
        return target == "emulated" ? std::string(
                                          "every check uses the emulated GPU already. Use cpu, "
                                          "or sm_ with a number")
                                    : std::string();
      },
      "");
}

}  // namespace

void add_check_command(CLI::App& app, int& status) {
  CLI::App* const command = add_command(app, kExtend, "check", "Check a file");
  command->footer(kFooter);
  const auto request = std::make_shared<Request>();
  const auto states = std::make_shared<std::vector<std::string>>();
  const auto targets =
      std::make_shared<std::vector<std::string>>(std::vector<std::string>{"cpu", "sm_80", "sm_90"});
  const auto add_list = [command](const char* name, auto& values, const char* what,
                                  const char* type) {
    return command->add_option(name, values, what)->type_name(type)->allow_extra_args(false);
  };
  command->add_option("file", request->file, "File with a rule or a codec")
      ->type_name("FILE")
      ->check(not_empty_argument())
      ->required();
  add_list("--states", *states,
           "State formats for a rule: names, files or JSON as in {\"codec\": \"int8\", \"block\": "
           "64} (default: all)",
           "FORMAT,...");
  add_list("--weights", request->weights,
           "Weight formats for a rule, each with all its dtypes (default: all)", "FORMAT,...")
      ->delimiter(',');
  add_list("--target", *targets, "Targets to compile for; always includes the CPU", "TARGET,...")
      ->delimiter(',')
      ->check(is_target())
      ->check(is_compiled_target())
      ->capture_default_str();
  add_json_flag(*command, request->json);
  command->callback([request, states, targets, &status] {
    request->codecs = split_states(*states);
    for (const std::string& name : *targets)
      if (const Target target = parse_target(name); target.is_cuda())
        request->targets.push_back(target);
    status = run(*request);
  });
}

}  // namespace jitstep::tool
