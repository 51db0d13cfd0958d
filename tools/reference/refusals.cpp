// Sections about combinations of options, formats and dtypes that do not exist.
#include <jit/base/text.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/plan.h>

#include <algorithm>
#include <functional>
#include <map>

#include <emulation/option_covering_set.h>

#include "../jitstep/cost.h"
#include "jitstep/jit/option_values.h"
#include "markdown.h"
#include "pages.h"

namespace jitstep::reference {
namespace {

using namespace jitstep::jit;
using namespace jitstep::tool;
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
  Rows rows = {{"optimizer", "invalid if", "reason"}};
  for (const std::string& name : catalog.names(Kind::rule))
    for (const Refusal& refusal : catalog.rule(name).refusals)
      rows.push_back({link_to_rule(name), code(refusal.condition.written()), refusal.sentence});
  return table(rows);
}

// ---- formats -----------------------------------------------------------------------------------

// Collects kernels that do not exist, by error message.
class RefusedKernels {
 public:
  explicit RefusedKernels(const Catalog& catalog) : catalog_(catalog) {
    for (const std::string& name : catalog.names(Kind::rule))
      for (const auto& options : emulation::covering_set(catalog.rule(name), catalog))
        try_all(name, options);
  }

  Rows rows() const {
    Rows all = {{"error", "optimizers"}};
    for (const auto& [what, rules] : found_)
      all.push_back({what, rules.size() == catalog_.names(Kind::rule).size()
                               ? "all"
                               : joined(rules, ", ", link_to_rule)});
    return all;
  }

 private:
  void try_all(const std::string& rule, const emulation::RuleOptions& options) {
    OptionValues values(rule);
    for (const auto& [name, value] : options.values) values.set(name, value);
    KernelSpec spec{.rule = rule,
                    .flags = emulation::flags_of(values, options),
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

// ---- formats that replace another one ------------------------------------------------------------

// The state format of the first slot, and the weight format, that an optimizer uses for such a parameter.
std::pair<std::string, std::string> formats_used(const OptionValues& values, const Formats& formats,
                                                 const ParameterKind& parameter) {
  const StateFormat state = resolve(values, formats, parameter).spec.state;
  return {state.slots.at(0)->name, state.weights};
}

std::string instead(const Catalog& catalog) {
  constexpr std::int64_t kLarge = 1 << 20, kSmall = 4095;
  const OptionValues values("adamw");
  Rows rows = {{"choice", "parameter", "used instead"}};
  for (const std::string& codec : codec_columns(catalog)) {
    const Formats formats{.state = CodecChoice{codec}};
    const auto add = [&](const std::string& which, const ParameterKind& parameter) {
      const std::string got = formats_used(values, formats, parameter).first;
      if (got != codec)
        rows.push_back({"state " + code(codec), which, str_cat("state ", code(got))});
    };
    add("float64", {Dtype::float64, 2, kLarge});
    add(str_cat(kSmall, " elements or fewer, by default of `min_quantized_size`"),
        {Dtype::float32, 1, kSmall});
    add("one dimension", {Dtype::float32, 1, kLarge});
    const std::string& other = catalog.codec(codec).signed_slots;
    if (!other.empty())
      rows.push_back({"state " + code(codec), "signed slots", str_cat("state ", code(other))});
  }
  for (const std::string& weights : catalog.names(Kind::weights))
    for (const Dtype dtype : kDtypes) {
      const std::string got = formats_used(values, {.weights = weights}, {dtype, 2, kLarge}).second;
      if (got != weights)
        rows.push_back({"weights " + code(weights), to_string(dtype), "weights " + code(got)});
    }
  for (const std::string& name : catalog.names(Kind::rule))
    for (const Slot& slot : catalog.rule(name).slots)
      if (!slot.codec.empty())
        rows.push_back({"state for all slots",
                        str_cat("slot ", code(slot.name), " of ", link_to_rule(name)),
                        str_cat("state ", code(slot.codec), ", unless you name the slot")});
  return table(rows);
}

// ---- limits that follow from declarations ----------------------------------------------------------

bool sums_over(const Manifest& manifest, bool everything) {
  return std::any_of(manifest.reductions.begin(), manifest.reductions.end(),
                     [&](const Reduction& r) {
                       const bool all = r.domain.kind == Domain::Kind::all;
                       return everything ? all : !all && r.domain.kind != Domain::Kind::tensor;
                     });
}

bool has_shared_state(const Manifest& manifest) {
  return std::any_of(manifest.aux_state.begin(), manifest.aux_state.end(),
                     [](const AuxField& field) { return field.is_shared(); });
}

std::string consequences(const Catalog& catalog) {
  Rows rows = {{"optimizers that", "names", "not supported"}};
  const auto add = [&](const std::string& what, const std::string& unsupported,
                       const std::function<bool(const Manifest&)>& property) {
    const auto found = rules_with(catalog, property);
    if (!found.empty())
      rows.push_back({what,
                      joined(found, ", ", [](const Manifest* r) { return link_to_rule(r->name); }),
                      unsupported});
  };
  add("sum over all parameters",
      "parameters on several devices, as with `max_grad_norm` of any optimizer. Make one optimizer "
      "per device.",
      [](const Manifest& r) { return sums_over(r, true); });
  add("have state for the whole optimizer",
      "parameters on several devices; without torch, a `Step` without its `SharedState`, or for "
      "two such rules",
      has_shared_state);
  add("sum over rows, columns, matrices or an axis",
      "parameters of more than 8 dimensions, as with `centralization` of any optimizer",
      [](const Manifest& r) { return sums_over(r, false); });
  add("have a training and an evaluation mode", "`step()` between `eval()` and `train()`",
      [](const Manifest& r) { return r.modes; });
  add("have a host transform",
      "an optimizer without a registered transform; without torch, `Step::run` and `launch` "
      "without its function",
      [](const Manifest& r) { return !r.transforms.empty(); });
  return table(rows);
}

}  // namespace

std::string refusals(const Catalog& catalog) {
  return "## Invalid options\n\nThese combinations throw, in addition to values outside an "
         "option's "
         "range.\n\n" +
         refused_options(catalog) +
         "## Invalid kernels\n\nThe generator tried all optimizers, values of their flags, formats "
         "and dtypes. These kernels do not exist:\n\n" +
         table(RefusedKernels(catalog).rows()) +
         "## Replaced formats\n\nA parameter that a format does not support gets another "
         "one:\n\n" +
         instead(catalog) + "## Limits\n\n" + consequences(catalog);
}

}  // namespace jitstep::reference
