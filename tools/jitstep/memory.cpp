// jitstep memory: estimates the memory of a model and its optimizer.
#include <jit/base/text.h>
#include <jitstep/jit/error.h>

#include <charconv>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>

#include "command.h"
#include "memory/memory_plan.h"
#include "optimizer_args.h"
#include "usage.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;

constexpr const char* kFooter =
    "Counts parameters, gradients and optimizer state, for matrices of 1024 x 1024 as in\n"
    "docs/reference/bytes.md. Activations are not counted.\n\n"
    "Examples:\n"
    "  jitstep memory --params 7B --rule adamw --state int4 --weights split16\n"
    "  jitstep memory --params 125M --rule sgd --set momentum=0.9 --state m=bf16\n"
    "  jitstep memory --params 7B --state int8 --ranks 64";

struct Args {
  std::string parameters;
  OptimizerArgs optimizer;
  std::optional<int> ranks;
  bool json = false;
};

// Reads "7B", "1.5M" or "431080".
std::int64_t parse_count(const std::string& text) {
  constexpr long double kMost = 281474976710656;  // 2^48, the limit for elements of a tensor
  constexpr std::string_view kUnits = "KkMmBbTt";
  double number = 0;  // libc++ reads no long double
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  long double count = number;
  bool good = failure == std::errc() && end - rest <= 1;
  if (good && rest != end) {
    const std::size_t unit = kUnits.find(*rest);
    good = unit != kUnits.npos;
    const std::size_t power = unit / 2 + 1;
    count *= std::pow(1000.0L, static_cast<long double>(power));
  }
  const long double whole = std::round(count);
  if (!good || !(std::abs(count - whole) < 1e-3L + 2e-16L * whole) || whole < 1 || whole > kMost)
    throw UsageError(str_cat(
        "--params: \"", text,
        "\" is not a number of parameters. Give a whole number from 1 to 2^48. K, M, B and T "
        "stand for thousands to trillions, as in 7B or 1.5M."));
  return static_cast<std::int64_t>(whole);
}

memory::Request request_of(const Args& args) {
  const OptimizerArgs& optimizer = args.optimizer;
  memory::Request request{.parameters = parse_count(args.parameters),
                          .rule = rule_name(optimizer.rule),
                          .options = named_options(optimizer),
                          .formats = formats_of(optimizer)};
  if (!optimizer.parameter.empty()) request.parameter = parse_dtype(optimizer.parameter);
  if (!optimizer.gradient.empty()) request.gradient = parse_dtype(optimizer.gradient);
  request.ranks = args.ranks;
  return request;
}

}  // namespace

void add_memory_command(CLI::App& app, int& status) {
  CLI::App* const command = add_command(app, kPlan, "memory", "Estimate memory");
  command->alias("plan");  // its former name
  command->footer(kFooter);
  const auto args = std::make_shared<Args>();
  command->add_option("--params", args->parameters, "Number of parameters, as in 431080, 125M, 7B")
      ->type_name("N")
      ->required();
  add_optimizer_args(*command, args->optimizer);
  command
      ->add_option("--ranks", args->ranks,
                   "Number of ranks that share the state: adds memory and traffic per rank")
      ->type_name("N");
  add_json_flag(*command, args->json);
  command->callback([args, &status] {
    const memory::MemoryPlan plan =
        as_usage([&] { return memory::memory_plan(request_of(*args)); });
    std::cout << (args->json ? to_json(plan) : to_text(plan));
    status = kSuccess;
  });
}

}  // namespace jitstep::tool
