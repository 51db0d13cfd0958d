#include "subject.h"

#include <jit/base/closest.h>
#include <jit/base/private_files.h>
#include <jit/base/text.h>
#include <jitstep/jit/catalog.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/kernel_config.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "../machine_records.h"
#include "../usage.h"

namespace jitstep::tool::inspect {
namespace {

using namespace jitstep::jit;

constexpr WorkSize kUsualSize = {.elements = 1 << 20};  // of a step whose choice is shown

Plan kernel_of(const KernelArgs& args, const RequestedOptimizer& requested) {
  KernelSpec spec = plan_of(requested, args.dims).spec;
  spec.strided = args.strided;
  if (args.scaled) spec.gradient_flags["scaled"] = true;
  return as_usage([&] { return resolve(spec); });
}

int number_of(const std::string& flag, const std::string& name, const std::string& word) {
  int number = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, failure] = std::from_chars(word.data(), end, number);
  if (failure == std::errc() && rest == end) return number;
  throw UsageError(str_cat(flag, ": \"", word, "\" is not a number for ", name));
}

// The default, changed by "threads=128", or by the first four numbers in this order.
KernelConfig config_of(const KernelArgs& args, KernelConfig config) {
  const std::vector<std::string>& words = args.config;
  const auto fields = config_fields();
  std::vector<std::string> names;
  for (const ConfigField& field : fields) names.emplace_back(field.name);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t sign = words[i].find('=');
    const bool bare = sign == words[i].npos && words.size() == 4;
    const std::string name = bare ? names[i] : words[i].substr(0, sign);
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end() || (sign == words[i].npos && !bare))
      throw UsageError(str_cat(args.config_flag, ": there is no \"", name, "\"",
                               did_you_mean(name, names), ". Give ", joined(names, "=N, "),
                               "=N, or the first four numbers in this order."));
    config.*fields[static_cast<std::size_t>(found - names.begin())].member =
        number_of(args.config_flag, name, bare ? words[i] : words[i].substr(sign + 1));
  }
  return config;
}

// A weight format that does not support the dtype leaves the parameters as they are.
std::string note_on(const Plan& plan, const Formats& requested) {
  const StateFormat& made = plan.spec.state;
  if (!requested.weights || *requested.weights == made.weights) return "";
  return str_cat(*requested.weights, " is not for ", to_string(made.dtype),
                 " parameters, which stay ", made.weights);
}

}  // namespace

std::shared_ptr<const Built> Subject::built() const {
  return default_engine().build(requested, unit.name, target);
}

Subject subject(const KernelArgs& args) {
  RequestedOptimizer requested = optimizer_of(args);
  const Target target = parse_target(args.target);
  const Plan plan = kernel_of(args, requested);
  const ConfigChoice choice = chosen_config(plan, target, kUsualSize);
  const KernelConfig config = config_of(args, choice.config);
  const Unit made = as_usage([&] { return unit(plan, config, target); });
  const bool edited = !args.override_file.empty();
  const std::string source = edited ? read_code_file(args.override_file) : made.text;
  for (const std::string& entry : made.entries)
    if (edited && source.find(entry) == source.npos)
      throw Error(str_cat(args.override_file, " has no ", entry, ", which the kernel ", made.name,
                          " is called by; edit the output of --show flat"));
  const std::string note = note_on(plan, requested.formats);
  return {.options = std::move(requested.options),
          .plan = plan,
          .target = target,
          .config = config,
          .reason = args.config.empty() ? choice.why : "given by " + args.config_flag,
          .unit = made,
          .requested = source,
          .preprocessed = default_engine().preprocessed_text(source, made.name),
          .edited = edited,
          .note = note};
}

}  // namespace jitstep::tool::inspect
