// jitstep bench: times steps against a bandwidth baseline in the same run.
#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jit/codegen/tuning_record.h>
#include <jitstep/jit/engine.h>
#include <jitstep/jit/error.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "counted.h"
#include "in_range.h"
#include "json_output.h"
#include "tuning/host_device.h"
#include "tuning/plot.h"
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
    "Kernels run in the configs that `jitstep tune` recorded.\n\n"
    "Example:\n"
    "  jitstep bench --rule adamw --states fp32,int8,int4 --sizes 64k,1M,16M,700x2k";

constexpr const char* kPlotIntroduction =
    "Each dot is the rate of a step as a share of the bandwidth baseline's rate in the same "
    "rounds.\n"
    "The line goes from the first to the third quartile. The broken line is the baseline.";

struct Request {
  WorkloadArgs workloads;
  int rounds = 11, threads = 0;
  std::string plot;
  bool json = false;
};

struct Measured {
  Workload workload;
  ConfigChoice choice;
  double seconds = 0, spread = 0, bytes = 0;
  double of_bound = 0;  // baseline time / step time, the median of the rounds
  double of_bound_low = 0, of_bound_high = 0;  // first and third quartile

  double elements_per_second() const {
    return static_cast<double>(workload.size().elements) / seconds;
  }
  double rate() const { return bytes / seconds; }
};

double quantile(std::vector<double>& values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

Measured measured(tuning::HostDevice& device, CpuBackend& cpu, const Workload& workload,
                  int rounds) {
  device.begin(workload);
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

std::string table_of(const std::vector<Measured>& all) {
  std::vector<std::vector<std::string>> rows = {
      {"workload", "ms", "spread", "Mparam/s", "GB/s", "of bound", "config"}};
  for (const Measured& one : all)
    rows.push_back({one.workload.name(), fixed(1e3 * one.seconds, 4),
                    fixed(100 * one.spread, 0) + " %", fixed(one.elements_per_second() / 1e6, 1),
                    fixed(one.rate() / 1e9, 1), fixed(100 * one.of_bound, 0) + " %",
                    to_string(one.choice.match)});
  return text_table(rows, {1, 2, 3, 4, 5});
}

json to_json(const Measured& one) {
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

std::string page_of(const std::vector<Measured>& all, const std::string& machine) {
  tuning::Plot plot{.low = 0, .high = 1.1, .ticks = {}, .lines = {{1, "limit"}}, .rows = {}};
  for (const Measured& one : all) {
    plot.high = std::max(plot.high, one.of_bound_high + 0.05);
    plot.rows.push_back(
        {.label = one.workload.name(),
         .value = one.of_bound,
         .low = one.of_bound_low,
         .high = one.of_bound_high,
         .title = str_cat(fixed(100 * one.of_bound, 0), " %: ", fixed(1e3 * one.seconds, 4),
                          " ms, ", fixed(one.elements_per_second() / 1e6, 1), " Mparam/s, ",
                          fixed(one.rate() / 1e9, 1), " GB/s")});
  }
  for (double tick = 0; tick < plot.high; tick += 0.5)
    plot.ticks.emplace_back(tick, fixed(100 * tick, 0) + " %");
  return tuning::html_page(
      "jitstep bench", kPlotIntroduction,
      str_cat("<p>", tuning::escaped(machine), "</p>\n", tuning::to_svg(plot)));
}

void bench(const Request& request) {
  if (!request.plot.empty()) tuning::check_page_path(request.plot);
  const int threads = request.threads > 0 ? request.threads : host_hardware().units;
  const std::vector<Workload> workloads = workloads_of(request.workloads);
  tuning::HostDevice device(default_engine(), {.threads = threads});
  CpuBackend cpu(default_engine());
  std::vector<Measured> all;
  for (const Workload& workload : workloads)
    all.push_back(measured(device, cpu, workload, request.rounds));
  json results = json::array();
  for (const Measured& one : all) results.push_back(to_json(one));
  const std::string& name = host_hardware().name;
  const std::string heading = str_cat(name, ", ", counted(threads, "thread"));
  if (request.json)
    std::cout << json_text({{"machine", name},
                            {"threads", threads},
                            {"rounds", request.rounds},
                            {"results", results}});
  else
    std::cout << heading << ", " << counted(request.rounds, "round") << "\n\n" << table_of(all);
  if (!request.plot.empty())
    tuning::write_page(request.plot, page_of(all, heading + ", " + today()));
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
  command->add_option("--plot", request->plot, "Write an HTML page with a plot")->type_name("FILE");
  add_json_flag(*command, request->json);
  command->callback([request, &status] {
    bench(*request);
    status = kSuccess;
  });
}

}  // namespace jitstep::tool
