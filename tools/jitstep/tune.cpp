// jitstep tune: measures kernel configs on this machine and records the fastest.
#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jit/tuning/tuning_files.h>
#include <jitstep/jit/engine.h>
#include <jitstep/jit/error.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "command.h"
#include "flag_values.h"
#include "in_range.h"
#include "json_output.h"
#include "report_file.h"
#include "tuning/compiled_model.h"
#include "tuning/cuda_device.h"
#include "tuning/host_device.h"
#include "tuning/tuner.h"
#include "usage.h"
#include "workload_args.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
using nlohmann::json;
using tuning::Tuned;
using tuning::Workload;

constexpr const char* kFooter =
    "Launch configurations never change results. Before jitstep times one, it compares its\n"
    "results with those of the default configuration, on scratch tensors. Tuning records go to\n"
    "tuning.jsonl in the cache folder, and optimizers use them from then on. Ctrl-C stops tuning\n"
    "after the current measurement (exit status 130), and the same command continues it. A second\n"
    "Ctrl-C stops it at once.\n\n"
    "Examples:\n"
    "  jitstep tune --rule adamw --state int8 --sizes 4k,1M,16M --budget 60s\n"
    "  jitstep tune --rule lamb --states fp32,int8 --model shapes.json --report lamb.json\n"
    "  jitstep tune --target sm_90 --rule adamw       # on a GPU of that architecture\n"
    "  jitstep tune --target sm_90 --dry-run          # the order of candidates; needs no GPU";

struct Request {
  WorkloadArgs workloads;
  std::string target = "cpu", budget = "60s", strategy = "local", report, records;
  int threads = 0, trials = 0;
  std::optional<int> device;
  std::int64_t scratch_mib = kScratchMib;
  bool dry_run = false, force = false, json = false;
};

volatile std::sig_atomic_t interrupted = 0;

// A compile may take minutes, so the second signal ends the process.
void interrupt(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}

std::string records_file(const Request& request) {
  const std::string own =
      request.records.empty() ? user_records(default_engine().settings()) : request.records;
  if (own.empty())
    throw Error("there is no cache folder for tuning records. Set JITSTEP_CACHE_DIR or --records.");
  return own;
}

tuning::HostLimits limits_of(const Request& request) {
  const int all = host_hardware().units;
  return {.threads = request.threads > 0 ? request.threads : all,
          .scratch_bytes = request.scratch_mib << 20};
}

// ---- dry run -----------------------------------------------------------------------------------

Hardware hardware_of_dry_run(const Target& target, const Request& request) {
  if (target.is_cuda()) return gpu_hardware(target, 132, 50 << 20);  // data of an H100
  return host_hardware(limits_of(request).threads);
}

constexpr double kUnknown = std::numeric_limits<double>::infinity();

struct Candidates {
  std::vector<std::pair<KernelConfig, double>> ordered;  // with predicted cost, cheapest first
  std::size_t unknown = 0;                               // not compiled within the budget
};

Candidates candidates_of(const Workload& workload, const Hardware& hardware, double seconds) {
  const auto space = config_space(workload.plan, hardware);
  if (hardware.target.is_cuda())
    std::cerr << "jitstep: compiling up to " << counted(space.all().size(), "candidate") << " for "
              << to_string(hardware.target) << " within the budget\n";
  const tuning::Model model =
      hardware.target.is_cuda()
          ? tuning::compiled_model(default_engine(), workload, hardware, seconds)
          : tuning::cpu_model(hardware, workload.size());
  Candidates candidates;
  for (const KernelConfig& one : tuning::by_model(space, model)) {
    const double cost = model(one);
    if (cost == kUnknown)
      ++candidates.unknown;
    else
      candidates.ordered.emplace_back(one, cost);
  }
  return candidates;
}

std::string table_of(const Candidates& candidates) {
  std::vector<std::vector<std::string>> rows = {{"config", "predicted cost"}};
  for (const auto& [config, cost] : candidates.ordered)
    rows.push_back({to_string(config), fixed(cost, 2)});
  const std::string rest =
      str_cat(candidates.unknown,
              " more were not compiled within the budget. The same command continues.\n");
  return text_table(rows, {1}) + (candidates.unknown > 0 ? rest : "");
}

json to_json(const Candidates& candidates) {
  json out = json::array();
  for (const auto& [config, cost] : candidates.ordered)
    out.push_back({{"config", to_string(config)}, {"cost", cost}});
  return out;
}

void dry_run(const Request& request) {
  const Hardware hardware = hardware_of_dry_run(parse_target(request.target), request);
  const double end = tuning::steady_seconds() + parse_seconds(request.budget);
  json out = json::array();
  for (const Workload& workload : workloads_of(request.workloads)) {
    const Candidates candidates = candidates_of(workload, hardware, end - tuning::steady_seconds());
    const std::string default_config =
        to_string(default_kernel_config(workload.plan, hardware.target));
    if (!request.json)
      std::cout << workload.name() << " on " << hardware.architecture << ": "
                << counted(candidates.ordered.size() + candidates.unknown, "candidate")
                << " against " << default_config << "\n\n"
                << table_of(candidates) << "\n";
    out.push_back({{"workload", workload.name()},
                   {"default", default_config},
                   {"candidates", to_json(candidates)},
                   {"not_compiled", candidates.unknown}});
  }
  if (request.json) std::cout << json_text({{"workloads", out}});
}

// ---- tuning ------------------------------------------------------------------------------------

std::string found(const Tuned& one) {
  if (!one.problem.empty()) return one.problem;
  const TuningRecord& record = one.record;
  if (record.outcome != Outcome::won) return to_string(record.outcome);
  return str_cat("won: ", to_string(record.config));
}

// The trial with the smallest time relative to the default, also if it did not win.
const Trial* fastest(const TuningRecord& record) {
  const Trial* best = nullptr;
  for (const Trial& trial : record.trials)
    if (trial.times.rounds > 0 && (best == nullptr || trial.times.ratio < best->times.ratio))
      best = &trial;
  return best;
}

std::string table_of(const std::vector<Tuned>& all) {
  std::vector<std::vector<std::string>> rows = {{"workload", "trials", "ms", "GB/s", "of bound",
                                                 "fastest trial", "spread", "gain", "outcome"}};
  for (const Tuned& one : all) {
    std::vector<std::string> row = {one.workload.name(), str_cat(one.record.trials.size())};
    if (const Trial* const best = fastest(one.record)) {
      const double seconds = best->times.default_seconds;
      const double rate = tuning::moved_bytes(one.workload) / seconds;
      const double bound = one.record.hardware.bandwidth;
      row.insert(row.end(),
                 {fixed(1e3 * seconds, 4), fixed(rate / 1e9, 1),
                  bound > 0 ? fixed(100 * rate / bound, 0) + " %" : "", fixed(best->times.ratio, 3),
                  fixed(best->times.spread, 3), fixed(one.record.gain, 3)});
    } else {
      row.insert(row.end(), 6, "");
    }
    row.push_back(found(one) + (one.known ? " (known before)" : ""));
    rows.push_back(std::move(row));
  }
  return text_table(rows, {1, 2, 3, 4, 5, 6, 7});
}

json to_json(const std::vector<Tuned>& all) {
  json out = json::array();
  for (const Tuned& one : all) {
    json entry = {{"workload", one.workload.name()},
                  {"bytes", tuning::moved_bytes(one.workload)},
                  {"known_before", one.known}};
    if (one.problem.empty() || !one.record.trials.empty())
      entry["record"] = json::parse(jit::to_json(one.record));
    if (!one.problem.empty()) entry["problem"] = one.problem;
    out.push_back(std::move(entry));
  }
  return out;
}

tuning::TunerOptions options_of(const Request& request) {
  tuning::TunerOptions options{.strategy = request.strategy,
                               .budget_seconds = parse_seconds(request.budget),
                               .most_trials = request.trials,
                               .again = request.force,
                               .records = records_file(request)};
  options.stopped = [] { return interrupted != 0; };
  if (::isatty(STDERR_FILENO))
    options.on_trial = [](const TuningRecord& record) {
      std::cerr << "\r\x1b[K" << record.kernel << " of " << record.size.elements << ": "
                << record.trials.size() << " trials" << std::flush;
    };
  return options;
}

// Compiling for the order of candidates gets a quarter of the budget. The rest is for measurements.
std::unique_ptr<tuning::TuningDevice> gpu_for(const Request& request, std::size_t workloads) {
  const double budget = parse_seconds(request.budget) / static_cast<double>(workloads);
  const tuning::CudaLimits limits{.scratch_bytes = request.scratch_mib << 20,
                                  .order_seconds = budget / 4};
  try {
    const int gpu = tuning::gpu_of(default_engine(), parse_target(request.target), request.device);
    return std::make_unique<tuning::CudaDevice>(default_engine(), gpu, limits);
  } catch (const Error& error) {
    const std::string problem = error.what();
    throw Error(str_cat(problem, problem.ends_with('.') ? "" : ".",
                        " --dry-run orders the candidates for ", request.target,
                        " without a GPU."));
  }
}

void check_device(const Request& request) {
  const Target target = parse_target(request.target);
  if (target.is_cuda()) return;
  if (target.kind != Target::Kind::cpu)
    throw UsageError(
        str_cat("--target ", request.target, " cannot be tuned. Use cpu, or sm_ with a number."));
  if (request.device)
    throw UsageError(
        "--device is the number of a GPU. Name its architecture, as in --target sm_90.");
}

std::unique_ptr<tuning::TuningDevice> device_for(const Request& request, std::size_t workloads) {
  if (parse_target(request.target).is_cuda()) return gpu_for(request, workloads);
  return std::make_unique<tuning::HostDevice>(default_engine(), limits_of(request));
}

int tune(const Request& request) {
  const auto work = workloads_of(request.workloads);
  const auto options = options_of(request);
  if (auto problem = records_problem(options.records)) throw Error(*problem);
  warn_of_skipped_lines(read_records(options.records), options.records,
                        default_engine().settings().log);
  if (!request.report.empty()) check_report_path(request.report);
  const auto device = device_for(request, work.size());
  std::signal(SIGINT, &interrupt);
  std::signal(SIGTERM, &interrupt);
  const auto all = tuning::tune(work, *device, options);
  if (::isatty(STDERR_FILENO)) std::cerr << "\r\x1b[K";
  const std::string report = json_text({{"workloads", to_json(all)}});
  std::cout << (request.json ? report : table_of(all));
  if (!request.report.empty()) write_report(request.report, report);
  const bool failed =
      std::any_of(all.begin(), all.end(), [](const Tuned& one) { return !one.problem.empty(); });
  if (!interrupted) return failed ? kFailure : kSuccess;
  std::cerr << "jitstep: stopped after " << all.size() << " of " << counted(work.size(), "workload")
            << ". The same command continues.\n";
  return kInterrupted;
}

}  // namespace

void add_tune_command(CLI::App& app, int& status) {
  CLI::App* const command = add_command(app, kPerformance, "tune", "Tune kernels");
  command->footer(kFooter);
  const auto request = std::make_shared<Request>();
  add_workload_args(*command, request->workloads);
  const auto add = [command](const char* name, auto& value, const char* what, const char* type) {
    return command->add_option(name, value, what)->type_name(type);
  };
  add("--target", request->target, "cpu, or sm_ with a number", "TARGET")
      ->check(is_target())
      ->capture_default_str();
  add("--device", request->device, "GPU number (default: the first of the target)", "N")
      ->check(in_range(0));
  add("--budget", request->budget, "Time for all workloads, as in 60s, 5m, 1h", "TIME")
      ->capture_default_str();
  add("--trials", request->trials, "Most trials of a workload (default: all)", "N")
      ->check(in_range(0));
  add("--strategy", request->strategy, "Search: exhaustive, random or local", "NAME")
      ->check(one_of(tuning::strategy_names()))
      ->capture_default_str();
  add("--threads", request->threads, "Number of threads (default: all processors)", "N")
      ->check(in_range(0, kMostThreads));
  add_scratch_arg(*command, request->scratch_mib);
  add("--records", request->records, "Tuning records (default: in the cache folder)", "FILE")
      ->check(not_empty());
  add("--report", request->report, "Write all trials as JSON for tools/plot_report.py", "FILE")
      ->check(not_empty());
  command->add_flag("--force", request->force, "Also tune workloads that have a record");
  CLI::Option* const dry =
      command->add_flag("--dry-run", request->dry_run, "Only print the candidates in order");
  for (const char* name : {"--trials", "--strategy", "--records", "--report", "--force"})
    dry->excludes(command->get_option(name));
  add_json_flag(*command, request->json);
  command->callback([request, &status] {
    status = kSuccess;
    check_device(*request);
    if (request->dry_run) return dry_run(*request);
    status = tune(*request);
  });
}

}  // namespace jitstep::tool
