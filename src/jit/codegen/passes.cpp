#include "jit/codegen/passes.h"

#include <algorithm>

#include "jit/base/args.h"
#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

// The pass of each reduction of a component, in the order of declaration. -1: inactive, because its condition is false.
using Passes = std::vector<int>;

int last_of(const Passes& passes) {
  return passes.empty() ? -1 : *std::max_element(passes.begin(), passes.end());
}

bool has_aux_state_of(const Manifest& component, const Domain& domain) {
  return std::any_of(component.aux_state.begin(), component.aux_state.end(),
                     [&](const AuxField& field) { return field.domain == domain; });
}

// Whether reduction i would write the auxiliary state of its domain in the same launch as an earlier one. Both then
// iterate over the domain's entries, each in its own reduction layout.
bool races(const Manifest& component, const Passes& passes, std::size_t i, int pass) {
  const Reduction& mine = component.reductions[i];
  if (!has_aux_state_of(component, mine.domain)) return false;
  for (std::size_t j = 0; j < i; ++j) {
    const Reduction& other = component.reductions[j];
    if (passes[j] == pass && other.domain == mine.domain && (mine.source || other.source))
      return true;
  }
  return false;
}

void check_over(const Manifest& component, const Reduction& reduction, const Passes& passes) {
  if (!reduction.source || passes[static_cast<std::size_t>(*reduction.source)] >= 0) return;
  throw Error(str_cat(component.name, ": the reduction ", reduction.name, " reads the entries of ",
                      "another one that its condition excludes. Give both the same condition."));
}

// The passes of a component's reductions. Each comes after the reductions that it depends on, and not before the pass
// first(i).
template <class First>
Passes passes_of(const Plan& plan, int component, const EarliestPasses& earliest,
                 const First& first) {
  Passes passes;
  if (plan.components[component] == nullptr) return passes;
  const Manifest& manifest = *plan.components[component];
  // The first pass that may read each reduction. Of an inactive one: those before it.
  std::vector<int> known;
  for (std::size_t i = 0; i < manifest.reductions.size(); ++i) {
    const Reduction& reduction = manifest.reductions[i];
    int pass = 0;
    for (const int earlier : reduction.after)
      pass = std::max(pass, known[static_cast<std::size_t>(earlier)]);
    if (reduction.condition && !reduction.condition->holds(plan.flags(component))) {
      passes.push_back(-1);
      known.push_back(pass);
      continue;
    }
    check_over(manifest, reduction, passes);
    pass = std::max(pass, first(i));
    const auto shared = earliest.find({component, manifest.name, reduction.name});
    if (shared != earliest.end()) pass = std::max(pass, shared->second);
    while (races(manifest, passes, i, pass)) ++pass;
    passes.push_back(pass);
    known.push_back(pass + 1);
  }
  return passes;
}

ResolvedReduction resolved(const Reduction& reduction, const Manifest& component, Dtype parameter) {
  ResolvedReduction out;
  out.name = reduction.name;
  out.op = reduction.op;
  out.domain = reduction.domain;
  out.reduction_layout = reduction.domain.reduction_layout();
  out.terms = reduction.terms;
  out.is_global = reduction.domain.kind == Domain::Kind::all;
  out.has_source = reduction.source.has_value();
  if (out.has_source)
    out.source_domain = component.reductions[static_cast<std::size_t>(*reduction.source)].domain;
  out.coefficient_bytes = bytes_of(reduction.fields, parameter);
  return out;
}

// Which reductions of a rule must come before `update_state` (or `update_state_after`): those that it reads, and those
// that they depend on.
std::vector<bool> read_by_update_state(const Manifest& rule) {
  std::vector<bool> read(rule.reductions.size());
  for (std::size_t i = read.size(); i-- > 0;) {
    const Reduction& one = rule.reductions[i];
    read[i] = read[i] || one.read_by_update_state;
    for (const int earlier : one.after) {
      const auto other = static_cast<std::size_t>(earlier);
      if (rule.reductions[other].section == one.section) read[other] = read[other] || read[i];
    }
  }
  return read;
}

// The first pass after all reductions of a section that `update_state` reads or, after a transform,
// `update_state_after`.
int state_known(const Manifest& rule, const Passes& passes, int ready, int section) {
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const Reduction& one = rule.reductions[i];
    if (one.read_by_update_state && one.section == section) ready = std::max(ready, passes[i] + 1);
  }
  return ready;
}

// Whether the stored values of a slot follow from its codec's sums alone.
bool has_no_codes(const Manifest* codec) { return codec != nullptr && codec->code == "NoCode"; }

// Assigns passes to all components.
class Planner {
 public:
  Planner(Plan& plan, const EarliestPasses& earliest)
      : plan_(plan),
        earliest_(earliest),
        all_(plan.components.size()),
        early_(read_by_update_state(plan.rule())) {}

  // Sets the plan's numbers of passes. Each section but the last one ends with a host transform.
  std::vector<Passes> run() && {
    all_[kGradientComponent] = passes(kGradientComponent, [](std::size_t) { return 0; });
    const int ready = last_of(all_[kGradientComponent]) + 1;
    plan_.transform_passes.clear();
    plan_.slots_known_after = -1;
    plan_.state_section = 0;
    for (const Slot& slot : plan_.rule().slots)
      plan_.state_section = std::max(plan_.state_section, slot.section);
    plan_.slots_known = plan_section(0, ready);
    const int sections = static_cast<int>(plan_.rule().transforms.size());
    for (int section = 1; section <= sections; ++section) {
      plan_.transform_passes.push_back(end_of(section - 1));
      const int known = plan_section(section, plan_.transform_passes.back());
      if (section == std::max(plan_.state_section, 1)) plan_.slots_known_after = known;
    }
    return std::move(all_);
  }

 private:
  // The section of a reduction of a component: the transforms before it.
  int section_of(std::size_t component, std::size_t i) const {
    if (component == kRuleComponent) return plan_.rule().reductions[i].section;
    if (component < kFirstCodecComponent) return 0;
    // All slots after a transform are set together.
    const auto& slot = plan_.rule().slots[component - kFirstCodecComponent];
    return slot.section > 0 ? plan_.state_section : 0;
  }

  // The first pass after those of a section and of earlier ones.
  int end_of(int section) const {
    int end = plan_.transform_passes.empty() ? 0 : plan_.transform_passes.back();
    for (std::size_t component = 0; component < all_.size(); ++component)
      for (std::size_t i = 0; i < all_[component].size(); ++i)
        if (section_of(component, i) <= section) end = std::max(end, all_[component][i] + 1);
    if (section > 0 && section == plan_.state_section) end = std::max(end, plan_.slots_known_after);
    return end;
  }

  template <class First>
  Passes passes(std::size_t component, const First& first) const {
    return passes_of(plan_, static_cast<int>(component), earliest_, first);
  }

  // Plans the rule's reductions and the slots' codecs of a section, from pass `ready`. Returns the first pass in which
  // new slots are known. A rule's sums over new slots come after the sums of codecs with NoCode, because these
  // determine the stored values.
  int plan_section(int section, int ready) {
    plan_rule(section, ready, ready);
    const int known = state_known(plan_.rule(), all_[kRuleComponent], ready, section);
    int stored = ready;  // first pass in which the stored values of slots with NoCode are known
    for (std::size_t component = kFirstCodecComponent; component < all_.size(); ++component) {
      if (section_of(component, 0) != section) continue;
      all_[component] = passes(component, [&](std::size_t) { return known; });
      if (has_no_codes(plan_.components[component]))
        stored = std::max(stored, last_of(all_[component]) + 1);
    }
    plan_rule(section, ready, stored);
    return known;
  }

  // `ready`: for reductions that new slots depend on. `stored`: for the others. Earlier sections stay. Later ones are
  // planned again.
  void plan_rule(int section, int ready, int stored) {
    const Passes planned = all_[kRuleComponent];
    all_[kRuleComponent] = passes(kRuleComponent, [&](std::size_t i) {
      if (section_of(kRuleComponent, i) < section) return planned[i];
      return early_[i] ? ready : stored;
    });
  }

  Plan& plan_;
  const EarliestPasses& earliest_;
  std::vector<Passes> all_;
  std::vector<bool> early_;
};

}  // namespace

void plan_reductions(Plan& plan, const EarliestPasses& earliest) {
  const std::vector<Passes> passes = Planner(plan, earliest).run();
  plan.reductions.clear();
  plan.passes = 0;
  int nested_layout = kNestedLayout, active = 0;
  for (std::size_t component = 0; component < passes.size(); ++component) {
    const std::size_t first = plan.reductions.size();
    for (std::size_t local = 0; local < passes[component].size(); ++local) {
      const Reduction& reduction = plan.components[component]->reductions[local];
      ResolvedReduction one =
          resolved(reduction, *plan.components[component], plan.spec.state.dtype);
      one.component = static_cast<int>(component);
      one.local = static_cast<int>(local);
      one.pass = passes[component][local];
      if (one.active()) one.number = active++;
      plan.passes = std::max(plan.passes, one.pass + 1);
      if (one.has_source) {
        one.source_number =
            plan.reductions[first + static_cast<std::size_t>(*reduction.source)].number;
        one.reduction_layout = nested_layout;
        if (one.active() && nested_layout++ >= kReductionLayouts)
          throw Error(str_cat(plan.spec.rule, " has more than ", kReductionLayouts - kNestedLayout,
                              " reductions over the entries of others. Exclude some by `if`."));
      }
      plan.reductions.push_back(std::move(one));
    }
  }
  if (active > kMaxReductions)
    throw Error(str_cat(plan.spec.rule, " with these codecs has ", active, " reductions. At most ",
                        kMaxReductions, " are allowed. Choose another codec for some slots."));
}

bool reads_dimensions(const Plan& plan) {
  return plan.rule().reads_sizes || std::any_of(plan.reductions.begin(), plan.reductions.end(),
                                                [](const ResolvedReduction& r) {
                                                  return r.active() && r.reduction_layout != 0;
                                                });
}

}  // namespace jitstep::jit
