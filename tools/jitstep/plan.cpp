// jitstep plan: what a model will need, before it is bought.
#include <jit/base/text.h>
#include <jitstep/jit/error.h>

#include <charconv>
#include <cmath>
#include <iostream>
#include <memory>

#include "command.h"
#include "optimizer_words.h"
#include "plan/memory_plan.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;

constexpr const char* kFooter =
    "Counted are parameters, gradients and all that an optimizer keeps from step to step, as "
    "docs/catalogue.md\n"
    "counts: of matrices of 1024 x 1024. Activations are not.\n\n"
    "  jitstep plan --params 7B --rule adamw --state int4 --weights split16\n"
    "  jitstep plan --params 125M --rule sgd --set momentum=0.9 --state m=bf16";

struct Words {
  std::string parameters;
  OptimizerWords kernel;
  bool json = false;
};

// 7B, 1.5M, 431080.
std::int64_t parse_count(const std::string& word) {
  constexpr long double kMost = 281474976710656;  // 2^48, as of a tensor's elements
  constexpr std::string_view kUnits = "KkMmBbTt";
  long double count = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, failure] = std::from_chars(word.data(), end, count, std::chars_format::fixed);
  bool good = failure == std::errc() && end - rest <= 1;
  if (good && rest != end) {
    const std::size_t unit = kUnits.find(*rest);
    good = unit != kUnits.npos;
    count *= std::pow(1000.0L, static_cast<long double>(unit / 2 + 1));
  }
  const long double whole = std::round(count);
  if (!good || !(std::abs(count - whole) < 1e-3L) || whole < 1 || whole > kMost)
    throw Error(text("--params \"", word,
                     "\" is no number of parameters: give one from 1 to 2^48, where K, M, B and T "
                     "stand for thousands to trillions, as in 7B or 125M"));
  return static_cast<std::int64_t>(whole);
}

plan::Request request_of(const Words& words) {
  const OptimizerWords& kernel = words.kernel;
  plan::Request request{.parameters = parse_count(words.parameters),
                        .rule = rule_name(kernel.rule),
                        .options = named_options(kernel),
                        .formats = formats_of(kernel)};
  if (!kernel.parameter.empty()) request.parameter = parse_dtype(kernel.parameter);
  if (!kernel.gradient.empty()) request.gradient = parse_dtype(kernel.gradient);
  return request;
}

}  // namespace

void add_plan_command(CLI::App& app, int& status) {
  CLI::App* const command = app.add_subcommand(
      "plan", "Says what parameters, gradients and the optimizer's state will take in memory");
  command->footer(kFooter);
  const auto words = std::make_shared<Words>();
  command->add_option("--params", words->parameters, "How many parameters: 431080, 125M, 7B, 1.5T")
      ->required();
  add_optimizer_words(*command, words->kernel);
  command->add_flag("--json", words->json, "Prints one object instead of a table");
  command->callback([words, &status] {
    const plan::MemoryPlan made = plan::memory_plan(request_of(*words));
    std::cout << (words->json ? to_json(made) : to_text(made));
    status = 0;
  });
}

}  // namespace jitstep::tool
