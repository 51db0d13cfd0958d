#include "kernel_words.h"

#include <jit/base/text.h>
#include <jit/codegen/spec_text.h>
#include <jitstep/jit/error.h>

#include <charconv>

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;

Formats formats_of(const KernelWords& words, const std::string& state) {
  Formats formats;
  formats.state = parse_codec(state);
  if (!words.weights.empty()) formats.weights = words.weights;
  return formats;
}

// The dtype that a weight format is for, where none is named.
Dtype parameter_of(const KernelWords& words) {
  const Dtype named = parse_dtype(words.parameter);
  if (words.weights.empty()) return named;
  const auto& known = default_catalog().weights(words.weights).dtypes;
  const bool fits = std::find(known.begin(), known.end(), named) != known.end();
  return fits || known.empty() ? named : known.front();
}

}  // namespace

void add_kernel_words(CLI::App& command, KernelWords& words) {
  command.add_option("--rule", words.rule, "The optimizer")->capture_default_str();
  command.add_option("--state", words.states, "Codecs of the state, one or several: fp32,int8")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--weights", words.weights, "The weight format");
  command
      .add_option("--param,--param-dtype", words.parameter,
                  "The parameters' dtype, unless the weight format is for another")
      ->capture_default_str();
  command.add_option("--grad,--grad-dtype", words.gradient, "The gradients', if it is another");
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
  for (const std::string& state : words.states) {
    tuning::Asked asked{.options = OptionValues(words.rule),
                        .formats = formats_of(words, state),
                        .parameter = parameter_of(words)};
    asked.options.validate();
    check_formats(asked.formats, asked.options);
    if (!words.gradient.empty()) asked.gradient = parse_dtype(words.gradient);
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
