// jitstep bench: times steps against a bandwidth baseline in the same run.
#include <jit/base/numbers.h>
#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jit/tuning/config_chooser.h>
#include <jit/tuning/tuning_record.h>
#include <jitstep/jit/engine.h>
#include <jitstep/jit/error.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "in_range.h"
#include "json_output.h"
#include "report_file.h"
#include "tuning/host_device.h"
#include "usage.h"
#include "workload_args.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
using nlohmann::json;
using tuning::Workload;

constexpr const char* kFooter =
    "The bandwidth baseline is a plain loop over the same bytes in the same threads: parameters\n"
    "and state, read and written, and gradients, read. `of bound` is the rate of a step as a "
    "share\n"
    "of the baseline's rate. It can exceed 100 % where the caches hold the bytes.\n"
    "Kernels run in the launch configurations that `jitstep tune` recorded.\n\n"
    "Example:\n"
    "  jitstep bench --rule adamw --states fp32,int8,int4 --sizes 64k,1M,16M,700x2k";

struct Request {
  WorkloadArgs workloads;
  int rounds = 11, threads = 0;
  std::int64_t scratch_mib = kScratchMib;
  std::string plot;
  bool json = false;
};

struct Measured {
  Workload workload;
  std::string problem = {};  // why nothing was measured
  ConfigChoice choice = {};
  double seconds = 0, spread = 0, bytes = 0;
  double of_bound = 0;  // baseline time / step time, the median of the rounds
  double of_bound_low = 0, of_bound_high = 0;  // first and third quartile

  double elements_per_second() const {
    return static_cast<double>(workload.size().elements) / seconds;
  }
  double rate() const { return bytes / seconds; }
};

Measured measured(tuning::HostDevice& device, CpuBackend& cpu, const Workload& workload,
                  int rounds) {
  try {
    device.begin(workload);
  } catch (const Error& error) {
    return {.workload = workload, .problem = error.what()};
  }
  Measured out{.workload = workload,
               .choice = cpu.choose_config(workload.plan, workload.size()),
               .bytes = tuning::moved_bytes(workload)};
  std::vector<double> times, shares;
  device.seconds(out.choice.config);  // not measured, because it compiles the kernel
  for (int i = 0; i < rounds; ++i) {
    times.push_back(device.seconds(out.choice.config));
    shares.push_back(device.baseline_seconds() / times.back());
  }
  out.seconds = quantile(times, 0.5);
  out.spread = (quantile(times, 0.75) - quantile(times, 0.25)) / out.seconds;
  out.of_bound = quantile(shares, 0.5);
  out.of_bound_low = quantile(shares, 0.25);
  out.of_bound_high = quantile(shares, 0.75);
  return out;
}

std::vector<std::string> row_of(const Measured& one) {
  if (!one.problem.empty()) return {one.workload.name(), "", "", "", "", "", one.problem};
  return {one.workload.name(),
          fixed(1e3 * one.seconds, 4),
          fixed(100 * one.spread, 0) + " %",
          fixed(one.elements_per_second() / 1e6, 1),
          fixed(one.rate() / 1e9, 1),
          fixed(100 * one.of_bound, 0) + " %",
          to_string(one.choice.match)};
}

std::string table_of(const std::vector<Measured>& all) {
  std::vector<std::vector<std::string>> rows = {
      {"workload", "ms", "spread", "Mparam/s", "GB/s", "of bound", "record"}};
  for (const Measured& one : all) rows.push_back(row_of(one));
  return text_table(rows, {1, 2, 3, 4, 5});
}

json to_json(const Measured& one) {
  if (!one.problem.empty()) return {{"workload", one.workload.name()}, {"problem", one.problem}};
  return {{"workload", one.workload.name()},
          {"kernel", one.workload.plan.name},
          {"elements", one.workload.size().elements},
          {"tensors", one.workload.size().tensors},
          {"seconds", one.seconds},
          {"spread", one.spread},
          {"parameters_per_second", one.elements_per_second()},
          {"bytes", one.bytes},
          {"bytes_per_second", one.rate()},
          {"of_bound", one.of_bound},
          {"of_bound_quartiles", {one.of_bound_low, one.of_bound_high}},
          {"config", to_string(one.choice.config)},
          {"match", to_string(one.choice.match)},
          {"why", one.choice.why}};
}

int bench(const Request& request) {
  if (!request.plot.empty()) check_report_path(request.plot);
  const int threads = request.threads > 0 ? request.threads : host_hardware().units;
  const std::vector<Workload> workloads = workloads_of(request.workloads);
  tuning::HostDevice device(default_engine(),
                            {.threads = threads, .scratch_bytes = request.scratch_mib << 20});
  CpuBackend cpu(default_engine(), {}, recorded_configs(default_engine(), host_hardware(threads)));
  std::vector<Measured> all;
  for (const Workload& workload : workloads)
    all.push_back(measured(device, cpu, workload, request.rounds));
  json results = json::array();
  for (const Measured& one : all) results.push_back(to_json(one));
  const std::string& name = host_hardware().name;
  const std::string report = json_text({{"machine", name},
                                        {"threads", threads},
                                        {"rounds", request.rounds},
                                        {"date", today()},
                                        {"results", results}});
  if (request.json)
    std::cout << report;
  else
    std::cout << name << ", " << counted(threads, "thread") << ", "
              << counted(request.rounds, "round") << "\n\n"
              << table_of(all);
  if (!request.plot.empty()) write_report(request.plot, report);
  const auto failed = [](const Measured& one) { return !one.problem.empty(); };
  return std::any_of(all.begin(), all.end(), failed) ? kFailure : kSuccess;
}

}  // namespace

void add_bench_command(CLI::App& app, int& status) {
  CLI::App* const command = add_command(app, kPerformance, "bench", "Benchmark steps");
  command->footer(kFooter);
  const auto request = std::make_shared<Request>();
  request->workloads.sizes = {"64k", "1M", "16M", "700x2k"};
  add_workload_args(*command, request->workloads);
  command->add_option("--rounds", request->rounds, "Number of measurements; the median counts")
      ->type_name("N")
      ->check(in_range(1, 999))
      ->capture_default_str();
  command->add_option("--threads", request->threads, "Number of threads (default: all processors)")
      ->type_name("N")
      ->check(in_range(0, kMostThreads));
  add_scratch_arg(*command, request->scratch_mib);
  command->add_option("--plot", request->plot, "Write JSON for tools/plot_report.py")
      ->type_name("FILE")
      ->check(not_empty());
  add_json_flag(*command, request->json);
  command->callback([request, &status] { status = bench(*request); });
}

}  // namespace jitstep::tool
