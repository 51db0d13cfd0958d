#include "kernel_words.h"

#include <jit/base/text.h>
#include <jitstep/jit/error.h>

#include <charconv>

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;

// Commas divide, but not those of a codec in JSON.
std::vector<std::string> states_of(const std::vector<std::string>& given) {
  std::vector<std::string> states;
  for (const std::string& words : given) {
    int depth = 0;
    states.emplace_back();
    for (const char c : words) {
      depth += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (c == ',' && depth == 0)
        states.emplace_back();
      else
        states.back() += c;
    }
  }
  return states;
}

// The optimizer with one of the states.
tuning::Asked asked_for(OptimizerWords words, const std::string& state) {
  words.state = {state};
  tuning::Asked asked{.options = option_values(words), .formats = formats_of(words)};
  check_formats(asked.formats, asked.options);
  asked.parameter = words.parameter.empty() ? usual_dtype(asked.formats, asked.options.rule())
                                            : parse_dtype(words.parameter);
  if (!words.gradient.empty()) asked.gradient = parse_dtype(words.gradient);
  return asked;
}

}  // namespace

void add_kernel_words(CLI::App& command, KernelWords& words) {
  add_rule_words(command, words.optimizer);
  command
      .add_option("--state", words.states,
                  "Codecs of the state, one or several: fp32,int8; also SLOT=CODEC, a file, or "
                  "{\"codec\": \"int8\", \"block\": 64}")
      ->capture_default_str();
  add_parameter_words(command, words.optimizer);
  CLI::Option* const sizes =
      command
          .add_option("--sizes", words.sizes,
                      "Elements of a tensor (4k, 1M), or of several alike (700x2k)")
          ->delimiter(',')
          ->capture_default_str();
  command.add_option("--model", words.model, "A JSON file with the tensors' shapes")
      ->excludes(sizes);
}

std::vector<tuning::Workload> workloads_of(const KernelWords& words) {
  std::vector<tuning::Workload> all;
  for (const std::string& state : states_of(words.states)) {
    const tuning::Asked asked = asked_for(words.optimizer, state);
    const auto add = [&](const tuning::Shapes& shapes) {
      for (tuning::Workload& one : tuning::workloads(asked, shapes)) all.push_back(std::move(one));
    };
    if (!words.model.empty()) {
      add(tuning::read_model(words.model));
    } else {
      for (const std::string& size : words.sizes) add(tuning::parse_size(size));
    }
  }
  return all;
}

double parse_seconds(const std::string& word) {
  double seconds = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, failure] = std::from_chars(word.data(), end, seconds, std::chars_format::fixed);
  const std::string unit(rest, end);
  const double factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (failure != std::errc() || factor == 0 || !(seconds > 0) || seconds > 1e6)
    throw Error(text("the budget \"", word, "\" is no time: give seconds, as in 60s, 5m or 1h"));
  return seconds * factor;
}

}  // namespace jitstep::tool
