#include "support/combinations.h"

#include <algorithm>
#include <optional>
#include <set>

#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/plan.h"
#include "support/bits.h"

namespace jitstep::support {
namespace {

using emulation::RuleOptions;
using jit::Dtype;
using Kind = jit::Manifest::Kind;

// Sets the flags of the default options, so that the spec can be built.
jit::KernelSpec with_flags(jit::KernelSpec spec) {
  const jit::OptionValues options(spec.rule);
  spec.flags = options.flags();
  spec.gradient_flags = options.gradient_flags();
  const auto& slots = jit::default_catalog().rule(spec.rule).slots;
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (!jit::is_stored(slots[i], spec.flags)) spec.state.slots[i].reset();
  return jit::resolve(spec).spec;
}

jit::OptionValues values_of(const std::string& rule, const RuleOptions& options) {
  jit::OptionValues values(rule);
  for (const auto& [name, value] : options.values) values.set(name, value);
  return values;
}

std::ptrdiff_t stored_slots(const std::string& rule, const RuleOptions& options) {
  const jit::OptionValues values = values_of(rule, options);
  const auto flags = emulation::flags_of(values, options);
  const auto& slots = values.rule().slots;
  return std::count_if(slots.begin(), slots.end(),
                       [&](const jit::Slot& slot) { return jit::is_stored(slot, flags); });
}

std::vector<RuleOptions> flag_covering_set(const std::string& rule) {
  return emulation::covering_set(jit::default_catalog().rule(rule), jit::default_catalog());
}

// ---- compatible flag values

using FlagValues = std::set<std::string>;

// Flags with their values, such as "amsgrad=true". Nothing if the options are invalid.
std::optional<FlagValues> flags_of(const std::string& rule, const RuleOptions& options) {
  const jit::OptionValues values = values_of(rule, options);
  try {
    values.validate();
    emulation::validate(values, options);
  } catch (const jit::Error&) {
    return {};
  }
  FlagValues found;
  for (const auto& flags : {emulation::flags_of(values, options), values.gradient_flags()})
    for (const auto& flag : flags) found.insert(to_string(jit::NamedValues{flag}));
  return found;
}

// Whether the flags that `one` changes on its own have the same values under `both`.
bool preserves_flags(const std::string& rule, const RuleOptions& one, const RuleOptions& both) {
  const FlagValues default_flags =
      flags_of(rule, {.dims = one.dims, .sizes = one.sizes}).value_or(FlagValues());
  const auto all = flags_of(rule, both);
  const FlagValues alone = flags_of(rule, one).value_or(FlagValues());
  return all && std::all_of(alone.begin(), alone.end(), [&](const std::string& value) {
           return default_flags.contains(value) || all->contains(value);
         });
}

// The flag values of flag_covering_set() without the defaults, in fewer option sets.
std::vector<RuleOptions> merged_covering_set(const std::string& rule) {
  std::vector<RuleOptions> found;
  for (const RuleOptions& one : flag_covering_set(rule)) {
    if (one.values.empty() && one.dims == RuleOptions().dims && one.sizes.empty()) continue;
    const auto joins = [&](RuleOptions& other) {
      RuleOptions both = other;
      both.values.insert(one.values.begin(), one.values.end());
      if (one.dims != other.dims || one.sizes != other.sizes || !preserves_flags(rule, one, both) ||
          !preserves_flags(rule, other, both))
        return false;
      other = both;
      return true;
    };
    if (std::none_of(found.begin(), found.end(), joins)) found.push_back(one);
  }
  return found;
}

// ---- cases --------------------------------------------------------------------------------------

struct WeightsOfDtype {
  std::string name;
  Dtype dtype;
};

std::vector<WeightsOfDtype> weight_formats() {
  std::vector<WeightsOfDtype> all;
  for (const auto& name : jit::default_catalog().names(Kind::weights))
    for (const Dtype dtype : jit::default_catalog().weights(name).dtypes)
      all.push_back({name, dtype});
  return all;
}

// Applies the optimizer's rule that the state of float64 parameters is float64.
StepCase case_of(const std::string& rule, const RuleOptions& options, const std::string& codec,
                 const WeightsOfDtype& weights = {"native", Dtype::float32}) {
  const std::string state = weights.dtype == Dtype::float64 ? "fp32" : codec;
  return {.spec = spec_of(rule, state, weights.name, weights.dtype, weights.dtype),
          .options = options.values,
          .tensors = {},
          .dims = options.dims,
          .sizes = options.sizes};
}

// Cases with different kernels, none of which is in `known`.
class DistinctCases {
 public:
  explicit DistinctCases(std::vector<jit::KernelSpec> known) : known_(std::move(known)) {}

  void add(const StepCase& c) {
    const jit::KernelSpec spec = kernel_of(c).spec;
    if (std::find(known_.begin(), known_.end(), spec) != known_.end()) return;
    known_.push_back(spec);
    cases_.push_back(c);
  }
  // Whether a kernel of any rule combines the two.
  bool pairs(const std::string& codec, const WeightsOfDtype& weights) const {
    return std::any_of(known_.begin(), known_.end(), [&](const jit::KernelSpec& spec) {
      const auto& slots = spec.state.slots;
      return spec.state.weights == weights.name && spec.state.dtype == weights.dtype &&
             std::any_of(slots.begin(), slots.end(),
                         [&](const auto& stored) { return stored && stored->name == codec; });
    });
  }
  // The first weight format that no kernel combines with this codec yet. If there is none, the first of all.
  WeightsOfDtype partner(const std::string& codec,
                         const std::vector<WeightsOfDtype>& weights) const {
    const auto met = [&](const WeightsOfDtype& one) {
      return one.dtype == Dtype::float64 || pairs(codec, one);
    };
    const auto found = std::find_if_not(weights.begin(), weights.end(), met);
    return found == weights.end() ? weights.front() : *found;
  }
  std::vector<StepCase> cases() && { return std::move(cases_); }

 private:
  std::vector<jit::KernelSpec> known_;
  std::vector<StepCase> cases_;
};

}  // namespace

std::vector<jit::KernelSpec> ci_combinations() {
  const jit::Catalog& catalog = jit::default_catalog();
  std::vector<jit::KernelSpec> specs;
  const auto add = [&](const jit::KernelSpec& spec) {
    const jit::KernelSpec complete = with_flags(spec);
    if (std::find(specs.begin(), specs.end(), complete) == specs.end()) specs.push_back(complete);
  };
  for (const auto& rule : catalog.names(Kind::rule)) add(spec_of(rule, "fp32"));
  for (const auto& codec : catalog.names(Kind::codec))
    for (const char* rule : {"adamw", "lamb"}) add(spec_of(rule, codec));
  for (const WeightsOfDtype& weights : weight_formats())
    add(spec_of("adamw", "fp32", weights.name, weights.dtype, weights.dtype));
  return specs;
}

emulation::RuleOptions fullest_options(const std::string& rule) {
  const auto all = flag_covering_set(rule);
  return *std::max_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return stored_slots(rule, a) < stored_slots(rule, b);
  });
}

std::vector<std::string> codecs_for(const std::string& rule) {
  const auto rules = jit::default_catalog().names(Kind::rule);
  std::vector<std::string> codecs = jit::default_catalog().names(Kind::codec);
  const auto next =
      (std::find(rules.begin(), rules.end(), rule) - rules.begin()) % std::ssize(codecs);
  std::rotate(codecs.begin(), codecs.begin() + next, codecs.end());
  codecs.resize(std::min(kCodecsOfARule, codecs.size()));
  return codecs;
}

jit::CodecChoice with_flags_inverted(const std::string& codec) {
  jit::CodecChoice choice{codec};
  for (const jit::Option& option : jit::default_catalog().codec(codec).flags)
    if (option.type == jit::Option::Type::boolean)
      choice.options[option.name] = !option.initial.boolean();
  return choice;
}

std::vector<emulation::StepCase> covering_cases() {
  const jit::Catalog& catalog = jit::default_catalog();
  const auto codecs = catalog.names(Kind::codec);
  const auto weights = weight_formats();
  DistinctCases all(ci_combinations());
  std::size_t next = 0;  // index into codecs and weight formats
  for (const std::string& rule : catalog.names(Kind::rule)) {
    const RuleOptions fullest = fullest_options(rule);
    for (const std::string& codec : codecs_for(rule))
      all.add(case_of(rule, fullest, codec, all.partner(codec, weights)));
    for (const RuleOptions& options : merged_covering_set(rule)) {
      all.add(case_of(rule, options, codecs[next % codecs.size()], weights[next % weights.size()]));
      ++next;
    }
  }
  for (const std::string& codec : codecs)
    for (const WeightsOfDtype& format : weights)
      if (!all.pairs(codec, format)) all.add(case_of("adamw", {}, codec, format));
  for (const std::string& codec : codecs) {
    StepCase inverted = case_of("adamw", {}, codec);
    for (auto& slot : inverted.spec.state.slots) slot = with_flags_inverted(codec);
    all.add(inverted);
  }
  return std::move(all).cases();
}

std::vector<emulation::StepCase> all_cases() {
  const jit::Catalog& catalog = jit::default_catalog();
  DistinctCases all({});
  for (const std::string& rule : catalog.names(Kind::rule))
    for (const RuleOptions& options : flag_covering_set(rule))
      for (const std::string& codec : catalog.names(Kind::codec))
        all.add(case_of(rule, options, codec));
  for (const std::string& codec : catalog.names(Kind::codec))
    for (const WeightsOfDtype& format : weight_formats())
      all.add(case_of("adamw", {}, codec, format));
  return std::move(all).cases();
}

std::uint32_t fixed_hash(const jit::KernelSpec& spec) {
  std::uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : to_string(spec)) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash >> 8;
}

}  // namespace jitstep::support
