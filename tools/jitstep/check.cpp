// jitstep check: what somebody who writes a rule or a codec wants to know about the file.
#include <emulation/option_cover.h>
#include <jit/base/text.h>
#include <jitstep/jit/error.h>

#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <memory>

#include "check/kernel_check.h"
#include "check/kernels.h"
#include "check/report.h"
#include "check/request.h"
#include "check/scalar_loops.h"
#include "check/steps.h"
#include "check/workbench.h"
#include "command.h"
#include "progress_line.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
using check::Report;
using check::Request;

constexpr const char* kFooter =
    "A rule is tried with its default options in every codec and in float64 and bfloat16, and in\n"
    "float32 with options that switch on each of its flags; a codec with adamw, lamb and sgd. "
    "Each\n"
    "kernel is compiled for the CPU, for the GPU targets (which needs NVRTC and no GPU) and for "
    "the\n"
    "emulation of a GPU; held to the contract, as by JITSTEP_CHECK=1; and stepped on small "
    "tensors,\n"
    "which must leave the same bits on the CPU and under the emulation. What a codec decodes in "
    "the\n"
    "next step is compared with what it encoded: the share that is lost is a column, and more "
    "than\n"
    "its bits allow is an error.\n\n"
    "Exit status: 0 all right, 1 something is wrong with the file, 2 usage, 3 nothing wrong was "
    "found\n"
    "but a compiler is missing or no options reach a flag, so that not everything was checked. A\n"
    "warning is no error.";

// Why there are no kernels for a target. An Error if the compiler that is there does not know it, which may be a
// slip of the pen.
std::string problem_of(const Target& target) {
  const Target known = Target::cuda(90);  // to every NVRTC that can be there
  const std::string problem = check::compiler_problem(target);
  if (!problem.empty() && target.is_cuda() && check::compiler_problem(known).empty())
    throw Error(problem);
  return problem;
}

// The targets that can be compiled for, the CPU first; the others are reported.
std::vector<Target> usable(const Request& request, Report& report) {
  std::vector<Target> asked = {Target::cpu()}, targets;
  std::map<std::string, std::vector<std::string>> missing;  // names of targets by what is missing
  asked.insert(asked.end(), request.targets.begin(), request.targets.end());
  for (const Target& target : asked) {
    const std::string problem = problem_of(target);
    if (problem.empty()) targets.push_back(target);
    if (!problem.empty()) missing[problem].push_back(to_string(target));
  }
  for (const auto& [problem, names] : missing)
    report.unchecked.push_back(text(joined(names), ": ", problem));
  return targets;
}

// The kernels that the choices make; what makes none is reported.
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

// Kernels of flags that no options were found for are not there to be checked.
void report_unreached(const Catalog& catalog, Report& report) {
  if (report.manifest->kind != Manifest::Kind::rule) return;
  if (const auto flags = emulation::unreached_flags(*report.manifest, catalog); !flags.empty())
    report.unchecked.push_back(text("kernels with ", joined(flags),
                                    ": no options were found that make them so; simplify the "
                                    "conditions, or try such options with jitstep compile"));
}

// Numbers through the codec under each of its options, which the kernels of the first rule have. What a codec says in its
// leading comment that it loses is a warning.
void send_round(const std::vector<check::Candidate>& kernels, check::Workbench& plain,
                Report& report) {
  for (std::size_t i = 0; i < report.kernels.size(); ++i) {
    const KernelSpec& spec = kernels[i].steps.spec;
    check::KernelReport& kernel = report.kernels[i];
    const bool first = spec.rule == kernels[0].steps.spec.rule;
    if (!first || spec.state.dtype != Dtype::float32 || !kernel.problems.empty()) continue;
    try {
      kernel.round_trips = check::round_trips(*spec.state.slots[0], plain);
    } catch (const Error& error) {
      kernel.problems.push_back({.what = error.what()});
    }
    const bool declared = report.manifest->description.find("lossy: ") != std::string::npos;
    for (const check::RoundTrip& trip : kernel.round_trips)
      if (const std::string problem = problem_of(trip); problem.empty())
        continue;
      else if (declared && std::isfinite(trip.loss))
        kernel.warnings.push_back(problem);
      else
        kernel.problems.push_back({.what = problem, .group = "round trip of " + trip.slot});
  }
}

void check_file(const Request& request, check::Workbenches& benches, Report& report) {
  report.targets = usable(request, report);  // first: the rest takes its time
  report_unreached(benches.plain.catalog, report);
  const auto choices = check::choices(*report.manifest, request, benches);
  const auto kernels = candidates(choices, benches.plain.catalog, report);
  if (report.targets.empty() || report.targets[0] != Target::cpu()) return;
  const ProgressLine progress;
  report.kernels = check::check_kernels(kernels, {report.targets.begin() + 1, report.targets.end()},
                                        benches, std::cref(progress));
  check::warn_of_scalar_loops(kernels, benches.plain, report.kernels);
  if (report.manifest->kind == Manifest::Kind::codec) send_round(kernels, benches.plain, report);
}

int run(const Request& request) {
  check::Workbenches benches;
  Report report{.path = request.file};
  try {
    report.manifest = &benches.load(request.file);
  } catch (const Error& error) {
    report.problems.push_back({.what = error.what()});
  }
  try {
    if (report.manifest != nullptr) check_file(request, benches, report);
  } catch (const Error& error) {  // of what is asked for beside the file
    std::cerr << "jitstep: " << error.what() << "\n";
    return check::kUsage;
  }
  std::cout << (request.json ? to_json(report) : to_text(report));
  return report.status();
}

// A target's name as CLI11 checks it.
std::string target_problem(const std::string& word) {
  try {
    if (parse_target(word).kind != Target::Kind::emulated) return "";
  } catch (const Error&) {
  }
  return text("'", word, "' is no target: use cpu, or sm_ with a number, as in sm_90");
}

}  // namespace

void add_check_command(CLI::App& app, int& status) {
  CLI::App* const command = app.add_subcommand(
      "check",
      "Tries a file with a rule or a codec: compiles it, holds it to the contract, compares "
      "bits on small tensors, and says what it takes");
  command->footer(kFooter);
  const auto request = std::make_shared<Request>();
  const auto targets =
      std::make_shared<std::vector<std::string>>(std::vector<std::string>{"cpu", "sm_80", "sm_90"});
  command->add_option("file", request->file, "The file")->required();
  command->add_option("--codec", request->codecs,
                      "Codecs to keep a rule's slots in: names, files, or texts as "
                      "{\"codec\": \"int8\", \"block\": 64}; every one unless given");
  command->add_option("--weights", request->weights,
                      "Weight formats to keep a rule's parameters in, each in all its dtypes");
  command->add_option("--target", *targets, "What to compile for, beside the CPU")
      ->check(CLI::Validator(target_problem, "cpu or sm_NN"))
      ->capture_default_str();
  command->add_flag("--json", request->json, "Prints one object instead of tables");
  command->callback([request, targets, &status] {
    for (const std::string& word : *targets)
      if (const Target target = parse_target(word); target.is_cuda())
        request->targets.push_back(target);
    status = run(*request);
  });
}

}  // namespace jitstep::tool
