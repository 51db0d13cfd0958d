#include "workload_args.h"

#include <jit/base/text.h>

#include <CLI/CLI.hpp>
#include <charconv>

#include "in_range.h"
#include "usage.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;

tuning::TuningRequest request_of(const OptimizerArgs& args) {
  tuning::TuningRequest requested{.options = option_values(args), .formats = formats_of(args)};
  as_usage([&] { check_formats(requested.formats, requested.options); });
  requested.parameter = parameter_dtype(args, requested.formats, requested.options.rule());
  if (!args.gradient.empty())
    requested.gradient = as_usage([&] { return parse_dtype(args.gradient); });
  return requested;
}

// The optimizer in each state format of the sweep.
std::vector<OptimizerArgs> optimizers_of(const WorkloadArgs& args) {
  if (args.states.empty()) return {args.optimizer};
  std::vector<OptimizerArgs> all;
  for (const std::string& state : split_states(args.states)) {
    all.push_back(args.optimizer);
    all.back().state = {state};
  }
  return all;
}

}  // namespace

void add_workload_args(CLI::App& command, WorkloadArgs& args) {
  add_rule_args(command, args.optimizer);
  CLI::Option* const state = add_state_args(command, args.optimizer);
  command
      .add_option("--states", args.states, "Sweep over these state formats, as in fp32,int8,int4")
      ->type_name("FORMAT,...")
      ->allow_extra_args(false)
      ->excludes(state);
  add_parameter_args(command, args.optimizer);
  CLI::Option* const sizes =
      command
          .add_option("--sizes", args.sizes,
                      "Elements of a tensor, as in 1M, or of several, as in 700x2k. k, M and G are "
                      "powers of 1024")
          ->type_name("SIZE,...")
          ->allow_extra_args(false)
          ->delimiter(',')
          ->capture_default_str();
  command.add_option("--model", args.model, "JSON file with the shapes of all tensors")
      ->type_name("FILE")
      ->check(not_empty())
      ->excludes(sizes);
}

void add_scratch_arg(CLI::App& command, std::int64_t& mib) {
  constexpr std::int64_t kMost = std::int64_t{1}
                                 << 40;  // so that its bytes are a number of 64 bits
  command.add_option("--scratch", mib, "Most memory for scratch tensors, in MiB")
      ->type_name("N")
      ->check(in_range(1, kMost))
      ->capture_default_str();
}

std::vector<tuning::Workload> workloads_of(const WorkloadArgs& args) {
  std::vector<tuning::Workload> all;
  for (const OptimizerArgs& optimizer : optimizers_of(args)) {
    const tuning::TuningRequest requested = request_of(optimizer);
    const auto add = [&](const tuning::Shapes& shapes) {
      for (tuning::Workload& one : tuning::workloads(requested, shapes))
        all.push_back(std::move(one));
    };
    if (!args.model.empty()) {
      add(tuning::read_model(args.model));
    } else {
      for (const std::string& size : args.sizes)
        add(as_usage([&] { return tuning::parse_size(size); }));
    }
  }
  return all;
}

std::vector<std::string> split_states(const std::vector<std::string>& given) {
  std::vector<std::string> states;
  for (const std::string& list : given) {
    int depth = 0;
    states.emplace_back();
    for (const char c : list) {
      depth += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (c == ',' && depth == 0)
        states.emplace_back();
      else
        states.back() += c;
    }
  }
  return states;
}

double parse_seconds(const std::string& text) {
  double seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, seconds, std::chars_format::fixed);
  const std::string unit(rest, end);
  const double factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (failure != std::errc() || factor == 0 || !(seconds > 0) || seconds > 1e6)
    throw UsageError(str_cat("--budget: \"", text, "\" is not a time. Use 60s, 5m or 1h."));
  return seconds * factor;
}

}  // namespace jitstep::tool
