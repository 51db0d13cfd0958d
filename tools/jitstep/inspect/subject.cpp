#include "subject.h"

#include <jit/base/closest.h>
#include <jit/base/private_files.h>
#include <jit/base/text.h>
#include <jitstep/jit/catalog.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/variant.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "../machine_records.h"
#include "../usage.h"

namespace jitstep::tool::inspect {
namespace {

using namespace jitstep::jit;

constexpr WorkSize kUsualSize = {.elements = 1 << 20};  // of a step whose choice is shown

Plan kernel_of(const KernelArgs& args, const AskedOptimizer& asked) {
  KernelSpec spec = plan_of(asked, args.dims).spec;
  spec.strided = args.strided;
  if (args.scaled) spec.gradient_flags["scaled"] = true;
  return as_usage([&] { return resolve(spec); });
}

int number_of(const std::string& flag, const std::string& name, const std::string& word) {
  int number = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, failure] = std::from_chars(word.data(), end, number);
  if (failure == std::errc() && rest == end) return number;
  throw UsageError(text(flag, ": \"", word, "\" is not a number for ", name));
}

// The default, changed by "threads=128", or by the first four numbers in this order.
Variant config_of(const KernelArgs& args, Variant config) {
  const std::vector<std::string>& words = args.config;
  const std::pair<const char*, int*> fields[] = {
      {"threads", &config.threads}, {"lanes", &config.lanes},    {"vector", &config.vector},
      {"chunk", &config.chunk},     {"width", &config.width},    {"unroll", &config.unroll},
      {"grain", &config.grain},     {"workers", &config.workers}};
  std::vector<std::string> names;
  for (const auto& [name, number] : fields) names.emplace_back(name);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t sign = words[i].find('=');
    const bool bare = sign == words[i].npos && words.size() == 4;
    const std::string name = bare ? names[i] : words[i].substr(0, sign);
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end() || (sign == words[i].npos && !bare))
      throw UsageError(text(args.config_flag, ": there is no \"", name, "\"",
                            did_you_mean(name, names), ". Give ", joined(names, "=N, "),
                            "=N, or the first four numbers in this order."));
    *fields[found - names.begin()].second =
        number_of(args.config_flag, name, bare ? words[i] : words[i].substr(sign + 1));
  }
  return config;
}

// A weight format that does not support the dtype leaves the parameters as they are.
std::string note_on(const Plan& plan, const Formats& asked) {
  const StateFormat& made = plan.spec.state;
  if (!asked.weights || *asked.weights == made.weights) return "";
  return text(*asked.weights, " is not for ", to_string(made.dtype), " parameters, which stay ",
              made.weights);
}

}  // namespace

std::shared_ptr<const Built> Subject::built() const {
  return default_engine().build(asked, unit.name, target);
}

Subject subject(const KernelArgs& args) {
  AskedOptimizer asked = optimizer_of(args);
  const Target target = parse_target(args.target);
  const Plan plan = kernel_of(args, asked);
  const VariantChoice choice = chosen_variant(plan, target, kUsualSize);
  const Variant config = config_of(args, choice.variant);
  const Unit made = as_usage([&] { return unit(plan, config, target); });
  const bool edited = !args.override_file.empty();
  const std::string source = edited ? read_code_file(args.override_file) : made.text;
  for (const std::string& entry : made.entries)
    if (edited && source.find(entry) == source.npos)
      throw Error(text(args.override_file, " has no ", entry, ", which the kernel ", made.name,
                       " is called by; edit the output of --show flat"));
  const std::string note = note_on(plan, asked.formats);
  return {.options = std::move(asked.options),
          .plan = plan,
          .target = target,
          .variant = config,
          .reason = args.config.empty() ? choice.why : "given by " + args.config_flag,
          .unit = made,
          .asked = source,
          .flat = default_engine().flat_text(source, made.name),
          .edited = edited,
          .note = note};
}

}  // namespace jitstep::tool::inspect
