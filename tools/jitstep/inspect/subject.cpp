#include "subject.h"

#include <jit/base/closest.h>
#include <jit/base/private_files.h>
#include <jit/base/text.h>
#include <jitstep/jit/catalog.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/kernel_config.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "../machine_records.h"
#include "../usage.h"

namespace jitstep::tool::inspect {
namespace {

using namespace jitstep::jit;

constexpr WorkSize kTypicalSize = {.elements = 1 << 20};  // the size that the config is chosen for

Plan kernel_of(const KernelArgs& args, const RequestedOptimizer& requested) {
  KernelSpec spec = plan_of(requested, args.dims).spec;
  spec.strided = args.strided;
  if (args.scaled) spec.gradient_flags["scaled"] = true;
  return as_usage([&] { return resolve(spec); });
}

int number_of(const std::string& flag, const std::string& name, const std::string& text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, number);
  if (failure == std::errc() && rest == end) return number;
  throw UsageError(str_cat(flag, ": \"", text, "\" is not a number for ", name));
}

// `config` with the changes of --config: "threads=128", or four numbers for the first four fields.
KernelConfig config_of(const KernelArgs& args, KernelConfig config) {
  const std::vector<std::string>& changes = args.config;
  const auto fields = config_fields();
  std::vector<std::string> names;
  std::set<std::string> given;
  for (const ConfigField& field : fields) names.emplace_back(field.name);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const std::size_t sign = changes[i].find('=');
    const bool bare = sign == changes[i].npos && changes.size() == 4;
    const std::string name = bare ? names[i] : changes[i].substr(0, sign);
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end() || (sign == changes[i].npos && !bare))
      throw UsageError(str_cat(args.config_flag, ": there is no \"", name, "\"",
                               did_you_mean(name, names), ". Give ", joined(names, "=N, "),
                               "=N, or the first four numbers in this order."));
    if (!given.insert(name).second)
      throw UsageError(str_cat(args.config_flag, ": ", name, " is given twice. Remove one."));
    config.*fields[static_cast<std::size_t>(found - names.begin())].member =
        number_of(args.config_flag, name, bare ? changes[i] : changes[i].substr(sign + 1));
  }
  return config;
}

// A note if the weight format does not support the dtype. Parameters then stay in another format.
std::string note_on(const Plan& plan, const Formats& requested) {
  const StateFormat& used = plan.spec.state;
  if (!requested.weights || *requested.weights == used.weights) return "";
  return str_cat(*requested.weights, " does not support ", to_string(used.dtype),
                 " parameters, which stay ", used.weights);
}

}  // namespace

std::shared_ptr<const Built> Subject::built() const {
  return default_engine().build(requested, unit.name, target);
}

Subject subject(const KernelArgs& args) {
  RequestedOptimizer requested = optimizer_of(args);
  const Target target = parse_target(args.target);
  const Plan plan = kernel_of(args, requested);
  const ConfigChoice choice = chosen_config(plan, target, kTypicalSize);
  const KernelConfig config = config_of(args, choice.config);
  const Unit generated = as_usage([&] { return unit(plan, config, target); });
  const bool edited = !args.override_file.empty();
  const std::string source = edited ? read_code_file(args.override_file) : generated.text;
  for (const std::string& entry : generated.entries)
    if (edited && source.find(entry) == source.npos)
      throw Error(str_cat(args.override_file, " has no ", entry, ", an entry of the kernel ",
                          generated.name, ". Edit the output of --show flat."));
  const std::string note = note_on(plan, requested.formats);
  return {.options = std::move(requested.options),
          .plan = plan,
          .target = target,
          .config = config,
          .reason = args.config.empty() ? choice.why : "given by " + args.config_flag,
          .unit = generated,
          .requested = source,
          .preprocessed = default_engine().preprocessed_text(source, generated.name),
          .edited = edited,
          .note = note};
}

}  // namespace jitstep::tool::inspect
