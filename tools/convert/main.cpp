// The program behind `jitstep convert`.
#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/log.h>
#include <torch/types.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "../jitstep/not_negative.h"
#include "../jitstep/optimizer_words.h"
#include "../jitstep/output.h"
#include "../jitstep/template_file.h"
#include "conversion.h"

namespace jitstep::tool::convert {
namespace {

using nlohmann::json;

constexpr int kUsage = 2;
constexpr const char* kFooter =
    "The new file is what an optimizer with these formats saves after it has loaded the old one: "
    "the same bits.\n"
    "What is not asked for stays as it was saved; numbers of options always do. It is written "
    "whole or not at all.\n"
    "Kernels that convert are compiled once, into the cache. Takes memory for the state before and "
    "after.\n\n"
    "  jitstep convert opt.pt small.pt --state int8\n"
    "  jitstep convert opt.pt opt.pt --replace --state m=int4 --state v=int8\n"
    "  jitstep convert torch_adam.pt opt.pt --rule adam --state bf16";

struct Words {
  Request request;
  OptimizerWords formats;
  std::optional<std::int64_t> min_quantized_size;
  std::vector<std::string> with;
  bool as_json = false;
};

void add_words(CLI::App& app, Words& words) {
  app.add_option("from", words.request.from, "The file that an optimizer was saved to")->required();
  app.add_option("to", words.request.to, "The file to be written")->required();
  add_state_words(app, words.formats)->allow_extra_args(false);  // files may follow
  app.add_option("--weights", words.formats.weights,
                 "A weight format that keeps nothing beside the parameters: native or stochastic");
  app.add_option("--min-quantized-size", words.min_quantized_size,
                 "Parameters with fewer elements keep fp32 where a codec has blocks")
      ->check(not_negative());
  app.add_option("--rule", words.formats.rule,
                 "The rule of a file that does not say it, as torch's own do not");
  app.add_option("--with", words.with, "A file with a rule or codec of yours that the file names")
      ->allow_extra_args(false);
  app.add_flag("--replace", words.request.replace,
               "Writes over a file that is there, be it the one that is read");
  app.add_flag("--json", words.as_json, "Prints one object instead of tables");
}

// Files first: the other words may name what is in them.
Request request_of(const Words& words) {
  for (const std::string& file : words.with) load_file(file);
  Request request = words.request;
  if (!words.formats.rule.empty()) request.rule = rule_name(words.formats.rule);
  request.formats = formats_of(words.formats);
  request.formats.min_quantized_size = words.min_quantized_size;
  return request;
}

std::string to_text(const Conversion& made) {
  std::vector<std::vector<std::string>> rows = {{"", "from", "to", "parameters"}};
  for (const Part& part : made.parts)
    rows.push_back({part.what, part.from.empty() ? "-" : part.from, part.to.empty() ? "-" : part.to,
                    std::to_string(part.parameters)});
  const double elements = std::max<double>(1, static_cast<double>(made.elements));
  const auto each = [&](std::int64_t bytes) {
    return jit::fixed(static_cast<double>(bytes) / elements, 4);
  };
  return jit::text(jit::joined(made.rules), ", ", made.parameters, " parameters, ", made.with_state,
                   " with state, of ", made.elements, " elements\n\n", jit::text_table(rows, {3}),
                   "\nstate: from ", each(made.state_bytes_before), " to ", each(made.state_bytes),
                   " bytes/parameter\n");
}

std::string to_json(const Conversion& made) {
  json parts = json::array();
  for (const Part& part : made.parts)
    parts.push_back({{"what", part.what},
                     {"from", part.from},
                     {"to", part.to},
                     {"parameters", part.parameters}});
  const json all = {{"rules", made.rules},
                    {"parameters", made.parameters},
                    {"with_state", made.with_state},
                    {"elements", made.elements},
                    {"state_bytes_before", made.state_bytes_before},
                    {"state_bytes", made.state_bytes},
                    {"parts", parts}};
  return all.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

// An optimizer tells its program of formats that differ, which is what was asked for here, and of parameters that are
// listed twice, which it told when it trained.
struct Silence : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// What torch adds in lines of their own is where it was met.
std::string one_line(const std::exception& error) {
  const auto* const torchs = dynamic_cast<const c10::Error*>(&error);
  const std::string all = torchs != nullptr ? torchs->what_without_backtrace() : error.what();
  return all.substr(0, all.find('\n'));
}

int run(int argc, char** argv) {
  CLI::App app("Writes the state that an optimizer saved to a file in other formats",
               "jitstep convert");
  app.footer(kFooter);
  Words words;
  add_words(app, words);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return status_of_output(app.exit(error) == 0 ? 0 : kUsage);
  }
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  try {
    const Conversion made = convert(request_of(words));
    std::cout << (words.as_json ? to_json(made) : to_text(made));
  } catch (const std::exception& error) {
    std::cerr << "jitstep: " << one_line(error) << "\n";
    return 1;
  }
  return status_of_output(0);
}

}  // namespace
}  // namespace jitstep::tool::convert

int main(int argc, char** argv) {
  jitstep::jit::set_warning_handler(
      [](const std::string& warning) { std::cerr << "jitstep: " << warning << "\n"; });
  return jitstep::tool::convert::run(argc, argv);
}
