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

bool has_aux_state_of(const Manifest& part, const Domain& domain) {
  return std::any_of(part.aux_state.begin(), part.aux_state.end(),
                     [&](const AuxField& field) { return field.domain == domain; });
}

// Whether reduction i would write the auxiliary state of its domain in the same launch as an earlier one. Both then
// iterate over the domain's entries, each in its own reduction layout.
bool races(const Manifest& part, const Passes& passes, std::size_t i, int pass) {
  const Reduction& mine = part.reductions[i];
  if (!has_aux_state_of(part, mine.domain)) return false;
  for (std::size_t j = 0; j < i; ++j) {
    const Reduction& other = part.reductions[j];
    if (passes[j] == pass && other.domain == mine.domain && (mine.source || other.source))
      return true;
  }
  return false;
}

void check_over(const Manifest& part, const Reduction& reduction, const Passes& passes) {
  if (!reduction.source || passes[static_cast<std::size_t>(*reduction.source)] >= 0) return;
  throw Error(str_cat(part.name, ": the reduction ", reduction.name, " reads the entries of ",
                      "another one that its condition excludes. Give both the same condition."));
}

// The passes of a component's reductions. Each comes after the reductions that it depends on, and not before the pass
// first(i).
template <class First>
Passes passes_of(const Plan& plan, int part, const EarliestPasses& earliest, const First& first) {
  Passes passes;
  if (plan.components[part] == nullptr) return passes;
  const Manifest& manifest = *plan.components[part];
  for (std::size_t i = 0; i < manifest.reductions.size(); ++i) {
    const Reduction& reduction = manifest.reductions[i];
    if (reduction.condition && !reduction.condition->holds(plan.flags(part))) {
      passes.push_back(-1);
      continue;
    }
    check_over(manifest, reduction, passes);
    int pass = first(i);
    for (const int earlier : reduction.after)
      pass = std::max(pass, passes[static_cast<std::size_t>(earlier)] + 1);
    const auto shared = earliest.find({part, manifest.name, reduction.name});
    if (shared != earliest.end()) pass = std::max(pass, shared->second);
    while (races(manifest, passes, i, pass)) ++pass;
    passes.push_back(pass);
  }
  return passes;
}

ResolvedReduction resolved(const Reduction& reduction, const Manifest& part, Dtype parameter) {
  ResolvedReduction out;
  out.name = reduction.name;
  out.op = reduction.op;
  out.domain = reduction.domain;
  out.reduction_layout = reduction.domain.reduction_layout();
  out.terms = reduction.terms;
  out.is_global = reduction.domain.kind == Domain::Kind::all;
  out.has_source = reduction.source.has_value();
  if (out.has_source)
    out.source_domain = part.reductions[static_cast<std::size_t>(*reduction.source)].domain;
  out.coefficient_bytes = bytes_of(reduction.fields, parameter);
  return out;
}

// Which reductions of a rule must come before `update_state`: those that it reads, and those that they depend on.
std::vector<bool> read_by_update_state(const Manifest& rule) {
  std::vector<bool> read(rule.reductions.size());
  for (std::size_t i = read.size(); i-- > 0;) {
    read[i] = read[i] || rule.reductions[i].read_by_update_state;
    for (const int earlier : rule.reductions[i].after)
      if (read[i]) read[static_cast<std::size_t>(earlier)] = true;
  }
  return read;
}

// The first pass after all reductions that `update_state` reads.
int state_known(const Manifest& rule, const Passes& passes, int ready) {
  for (std::size_t i = 0; i < passes.size(); ++i)
    if (rule.reductions[i].read_by_update_state) ready = std::max(ready, passes[i] + 1);
  return ready;
}

// Whether the stored values of a slot follow from its codec's sums alone.
bool has_no_codes(const Manifest* codec) { return codec != nullptr && codec->code == "NoCode"; }

// The passes of all components. Sets plan.slots_known. A rule's sums over new slots come after the sums of codecs with
// NoCode, because these determine the stored values.
std::vector<Passes> all_passes(Plan& plan, const EarliestPasses& earliest) {
  const auto from = [](int pass) { return [pass](std::size_t) { return pass; }; };
  std::vector<Passes> all = {passes_of(plan, kGradientComponent, earliest, from(0))};
  const int ready = last_of(all[kGradientComponent]) + 1;
  all.push_back(passes_of(plan, kRuleComponent, earliest, from(ready)));
  plan.slots_known = state_known(plan.rule(), all[kRuleComponent], ready);
  int stored = ready;  // first pass in which the stored values of slots with NoCode are known
  for (std::size_t part = kFirstCodecComponent; part < plan.components.size(); ++part) {
    all.push_back(passes_of(plan, static_cast<int>(part), earliest, from(plan.slots_known)));
    if (has_no_codes(plan.components[part])) stored = std::max(stored, last_of(all.back()) + 1);
  }
  const std::vector<bool> early = read_by_update_state(plan.rule());
  all[kRuleComponent] = passes_of(plan, kRuleComponent, earliest,
                                  [&](std::size_t i) { return early[i] ? ready : stored; });
  return all;
}

}  // namespace

void plan_reductions(Plan& plan, const EarliestPasses& earliest) {
  const auto passes = all_passes(plan, earliest);
  plan.reductions.clear();
  plan.passes = 0;
  int nested_layout = kNestedLayout, active = 0;
  for (std::size_t part = 0; part < passes.size(); ++part) {
    const std::size_t first = plan.reductions.size();
    for (std::size_t local = 0; local < passes[part].size(); ++local) {
      const Reduction& reduction = plan.components[part]->reductions[local];
      ResolvedReduction one = resolved(reduction, *plan.components[part], plan.spec.state.dtype);
      one.component = static_cast<int>(part);
      one.local = static_cast<int>(local);
      one.pass = passes[part][local];
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

}  // namespace jitstep::jit
