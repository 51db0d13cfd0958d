// What does not go together.
#include <jit/base/text.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/formats.h>

#include <algorithm>
#include <functional>
#include <map>

#include "kernels.h"
#include "markdown.h"
#include "pages.h"

namespace jitstep::tool::catalogue {
namespace {

using namespace jitstep::jit;
using Kind = Manifest::Kind;

constexpr Dtype kDtypes[] = {Dtype::float64, Dtype::float32, Dtype::bfloat16, Dtype::float16};

std::vector<const Manifest*> rules_with(const Catalog& catalog,
                                        const std::function<bool(const Manifest&)>& property) {
  std::vector<const Manifest*> all;
  for (const std::string& name : catalog.names(Kind::rule))
    if (property(catalog.rule(name))) all.push_back(&catalog.rule(name));
  return all;
}

// ---- options -----------------------------------------------------------------------------------

std::string refused_options(const Catalog& catalog) {
  Rows rows = {{"rule", "refused if", "because"}};
  for (const std::string& name : catalog.names(Kind::rule))
    for (const Refusal& refusal : catalog.rule(name).refusals)
      rows.push_back({link_to_rule(name), code(refusal.condition.written()), refusal.sentence});
  return table(rows);
}

// ---- formats -----------------------------------------------------------------------------------

// Kernels that are refused, by what is said of them.
class RefusedKernels {
 public:
  explicit RefusedKernels(const Catalog& catalog) : catalog_(catalog) {
    for (const std::string& name : catalog.names(Kind::rule))
      for (const auto& options : emulation::cover(catalog.rule(name), catalog))
        try_all(name, options);
  }

  Rows rows() const {
    Rows all = {{"refused", "of the rules"}};
    for (const auto& [what, rules] : found_)
      all.push_back({what, rules.size() == catalog_.names(Kind::rule).size()
                               ? "every one"
                               : joined(rules, ", ", link_to_rule)});
    return all;
  }

 private:
  void try_all(const std::string& rule, const emulation::RuleOptions& options) {
    const OptionValues values = options_of(rule, options.values);
    KernelSpec spec{.rule = rule,
                    .flags = values.flags(options.dims),
                    .gradient_flags = values.gradient_flags()};
    for (const std::string& codec : catalog_.names(Kind::codec)) {
      spec.state.slots.assign(values.rule().slots.size(), CodecChoice{codec});
      for (const std::string& weights : catalog_.names(Kind::weights))
        for (const Dtype dtype : kDtypes) try_one(spec, weights, dtype);
    }
  }

  void try_one(KernelSpec spec, const std::string& weights, Dtype dtype) {
    spec.state.weights = weights;
    spec.state.dtype = spec.gradient = dtype;
    try {
      resolve(spec, catalog_);
    } catch (const Error& error) {
      auto& rules = found_[error.what()];
      if (rules.empty() || rules.back() != spec.rule) rules.push_back(spec.rule);
    }
  }

  const Catalog& catalog_;
  std::map<std::string, std::vector<std::string>> found_;
};

// ---- what a parameter gets instead ---------------------------------------------------------------

// What an optimizer of some rule keeps such a parameter's first slot and weights in.
std::pair<std::string, std::string> given(const OptionValues& values, const Formats& formats,
                                          const ParameterKind& parameter) {
  const StateFormat state = resolve(values, formats, parameter).spec.state;
  return {state.slots.at(0)->name, state.weights};
}

std::string instead(const Catalog& catalog) {
  constexpr std::int64_t kLarge = 1 << 20, kSmall = 4095;
  const OptionValues values("adamw");
  Rows rows = {{"chosen", "parameter", "gets"}};
  for (const std::string& codec : codecs(catalog)) {
    const Formats formats{.state = CodecChoice{codec}};
    const auto add = [&](const std::string& which, const ParameterKind& parameter) {
      const std::string got = given(values, formats, parameter).first;
      if (got != codec) rows.push_back({"state " + code(codec), which, text("state ", code(got))});
    };
    add("float64", {Dtype::float64, 2, kLarge});
    add(text(kSmall, " elements or fewer, unless `min_quantized_size` says otherwise"),
        {Dtype::float32, 1, kSmall});
    add("of one dimension", {Dtype::float32, 1, kLarge});
    const std::string& other = catalog.codec(codec).signed_slots;
    if (!other.empty())
      rows.push_back(
          {"state " + code(codec), "in slots of values with signs", text("state ", code(other))});
  }
  for (const std::string& weights : catalog.names(Kind::weights))
    for (const Dtype dtype : kDtypes) {
      const std::string got = given(values, {.weights = weights}, {dtype, 2, kLarge}).second;
      if (got != weights)
        rows.push_back({"weights " + code(weights), to_string(dtype), "weights " + code(got)});
    }
  for (const std::string& name : catalog.names(Kind::rule))
    for (const Slot& slot : catalog.rule(name).slots)
      if (!slot.keeps.empty())
        rows.push_back({"state of all slots",
                        text("slot ", code(slot.name), " of ", link_to_rule(name)),
                        text("state ", code(slot.keeps), ", unless the slot itself is named")});
  return table(rows);
}

// ---- what follows from what a file declares ---------------------------------------------------------

bool sums_over(const Manifest& manifest, bool everything) {
  return std::any_of(manifest.reductions.begin(), manifest.reductions.end(),
                     [&](const Reduction& r) {
                       const bool all = r.domain.kind == Domain::Kind::all;
                       return everything ? all : !all && r.domain.kind != Domain::Kind::tensor;
                     });
}

bool has_common_memory(const Manifest& manifest) {
  return std::any_of(manifest.memory.begin(), manifest.memory.end(),
                     [](const MemoryField& field) { return field.is_common(); });
}

std::string consequences(const Catalog& catalog) {
  Rows rows = {{"rules that", "are", "so this is refused"}};
  const auto add = [&](const std::string& what, const std::string& refused,
                       const std::function<bool(const Manifest&)>& property) {
    const auto found = rules_with(catalog, property);
    if (!found.empty())
      rows.push_back({what,
                      joined(found, ", ", [](const Manifest* r) { return link_to_rule(r->name); }),
                      refused});
  };
  add("sum over all parameters",
      "`step()` with parameters on several devices, as with `max_grad_norm` of any rule: make an "
      "optimizer for each device",
      [](const Manifest& r) { return sums_over(r, true); });
  add("keep memory of all parameters",
      "parameters on several devices; without torch, a `Step` without its `CommonMemory`, or of "
      "two "
      "such rules",
      has_common_memory);
  add("sum over rows, columns, matrices or an axis",
      "parameters of more than 8 dimensions, as with `centralization` of any rule",
      [](const Manifest& r) { return sums_over(r, false); });
  add("have modes", "`step()` after `eval()`, until `train()`",
      [](const Manifest& r) { return r.modes; });
  add("have a host stage",
      "an optimizer where no such stage is registered; without torch, `Step::run` and `launch` "
      "without the stage's function",
      [](const Manifest& r) { return !r.host_stage.empty(); });
  return table(rows);
}

}  // namespace

std::string refusals(const Catalog& catalog) {
  return "## What is refused\n\nNumbers outside what an option takes are, and these options:\n\n" +
         refused_options(catalog) +
         "Of all rules, values of their flags, codecs, weight formats and dtypes, these "
         "kernels:\n\n" +
         table(RefusedKernels(catalog).rows()) +
         "An optimizer is not refused for a parameter that its formats are not for; that parameter "
         "gets "
         "another:\n\n" +
         instead(catalog) + consequences(catalog);
}

}  // namespace jitstep::tool::catalogue
