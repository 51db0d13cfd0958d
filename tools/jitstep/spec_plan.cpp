#include "spec_plan.h"

#include <jitstep/jit/catalog.h>
#include "jit/codegen/spec_text.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "template_file.h"
#include "usage.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
using nlohmann::json;

constexpr const char* kNaming[] = {"--rule", "--set", "--state", "--weights"};

std::string written(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Loads the codec of all slots, or the codec of each slot.
bool load_codecs(json& state) {
  bool loaded = load_codec(state);
  if (state.is_object() && !state.contains("codec"))
    for (json& codec : state) loaded = load_codec(codec) || loaded;
  return loaded;
}

// The spec with paths replaced by names. An invalid spec stays unchanged, so that parse_spec() reports its error.
std::string with_loaded_files(const std::string& spec) {
  json object = json::parse(spec, nullptr, false);
  if (!object.is_object()) return spec;
  bool loaded = object.contains("rule") && load_named(object["rule"], load_shared_rule);
  if (object.contains("state")) loaded = load_codecs(object["state"]) || loaded;
  return loaded ? written(object) : spec;
}

}  // namespace

RequestedOptimizer optimizer_of_spec(const std::string& text) {
  const std::string loaded = with_loaded_files(text);
  return as_usage([&] {
    const SpecText spec = parse_spec(loaded);
    RequestedOptimizer requested{OptionValues(spec.rule), spec.formats};
    for (const auto& [name, value] : spec.options) requested.options.set(name, value);
    requested.options.validate();
    check_formats(requested.formats, requested.options);
    return requested;
  });
}

RequestedOptimizer optimizer_of_args(const OptimizerArgs& args) {
  RequestedOptimizer requested{option_values(args), formats_of(args)};
  as_usage([&] { check_formats(requested.formats, requested.options); });
  requested.parameter = args.parameter;
  requested.gradient = args.gradient;
  return requested;
}

Plan plan_of(const RequestedOptimizer& requested, int dims, std::int64_t elements) {
  return as_usage([&] {
    const ParameterKind parameter{
        .dtype = requested.parameter.empty()
                     ? default_dtype(requested.formats, requested.options.rule())
                     : parse_dtype(requested.parameter),
        .dims = dims,
        .elements = elements};
    KernelSpec kernel = resolve(requested.options, requested.formats, parameter).spec;
    if (!requested.gradient.empty()) kernel.gradient = parse_dtype(requested.gradient);
    return resolve(kernel);
  });
}

void add_spec_args(CLI::App& command, CLI::Option& spec, OptimizerArgs& args) {
  add_optimizer_args(command, args);
  for (const char* name : kNaming) spec.excludes(command.get_option(name));
}

bool has_spec_args(const CLI::App& command) {
  return std::any_of(std::begin(kNaming), std::end(kNaming),
                     [&](const char* name) { return command.get_option(name)->count() > 0; });
}

}  // namespace jitstep::tool
