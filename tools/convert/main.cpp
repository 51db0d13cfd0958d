// jitstep-convert: the program behind `jitstep convert`. It is separate because it needs torch.
#include <jit/base/lines.h>
#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jitstep/jit/error.h>
#include <torch/types.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "../jitstep/convert_args.h"
#include "../jitstep/json_output.h"
#include "../jitstep/output.h"
#include "../jitstep/template_file.h"
#include "../jitstep/usage.h"
#include "conversion.h"

namespace jitstep::tool::convert {
namespace {

using nlohmann::json;

// Loads files first, because the other flags may name rules and codecs in them.
Request request_of(const ConvertArgs& args) {
  for (const std::string& file : args.load) load_file(file);
  Request request{
      .from = args.from, .to = args.to, .ranks = args.ranks, .overwrite = args.overwrite};
  if (!args.formats.rule.empty()) request.rule = rule_name(args.formats.rule);
  request.formats = formats_of(args.formats);
  request.formats.min_quantized_size = args.min_quantized_size;
  return request;
}

std::string to_text(const Conversion& conversion) {
  std::vector<std::vector<std::string>> rows = {{"", "from", "to", "parameters"}};
  for (const Entry& entry : conversion.entries)
    rows.push_back({entry.what, entry.from.empty() ? "-" : entry.from,
                    entry.to.empty() ? "-" : entry.to, std::to_string(entry.parameters)});
  const double elements = std::max<double>(1, static_cast<double>(conversion.elements));
  const auto each = [&](std::int64_t bytes) {
    return jit::fixed(static_cast<double>(bytes) / elements, 4);
  };
  return jit::str_cat(
      jit::joined(conversion.rules), ", ", jit::counted(conversion.parameters, "parameter"), ", ",
      conversion.with_state, " with state, ", jit::counted(conversion.elements, "element"), "\n\n",
      jit::text_table(rows, {3}), "\nstate: from ", each(conversion.state_bytes_before), " to ",
      each(conversion.state_bytes), " bytes/parameter\n");
}

std::string to_json(const Conversion& conversion) {
  json entries = json::array();
  for (const Entry& entry : conversion.entries)
    entries.push_back({{"what", entry.what},
                       {"from", entry.from},
                       {"to", entry.to},
                       {"parameters", entry.parameters}});
  return json_text({{"rules", conversion.rules},
                    {"parameters", conversion.parameters},
                    {"with_state", conversion.with_state},
                    {"elements", conversion.elements},
                    {"state_bytes_before", conversion.state_bytes_before},
                    {"state_bytes", conversion.state_bytes},
                    {"parts", entries}});
}

// Drops an optimizer's warnings: about different formats, which the user asked for, and about duplicate parameters,
// which training has shown already.
struct Silence : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// The first line, because torch's further lines are context and a stack trace. Without the prefix "jitstep: ", which
// report_error() adds.
std::string one_line(const std::exception& error) {
  const auto* const torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string line = jit::first_line(
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what());
  const std::string prefix = "jitstep: ";
  return line.starts_with(prefix) ? line.substr(prefix.size()) : line;
}

int run(int argc, char** argv) {
  CLI::App app(kConvertSummary, "jitstep convert");
  ConvertArgs args;
  add_convert_args(app, args);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return status_of_output(app.exit(error) == 0 ? kSuccess : kUsage);
  }
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  try {
    const Conversion result = convert(request_of(args));
    std::cout << (args.json ? to_json(result) : to_text(result));
  } catch (const UsageError& error) {
    return report_error(error.what(), kUsage, args.json);
  } catch (const std::exception& error) {
    return report_error(one_line(error), kFailure, args.json);
  }
  return status_of_output(kSuccess);
}

}  // namespace
}  // namespace jitstep::tool::convert

int main(int argc, char** argv) {
  jitstep::jit::set_warning_handler(
      [](const std::string& warning) { std::cerr << "jitstep: " << warning << "\n"; });
  return jitstep::tool::convert::run(argc, argv);
}
