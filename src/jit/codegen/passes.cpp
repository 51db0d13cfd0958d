#include "jit/codegen/passes.h"

#include <algorithm>

#include "jit/base/text.h"
#include "jitstep/args.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

// The pass of each reduction of a part, in the order of declaration; -1: its condition does not hold.
using Passes = std::vector<int>;

int last_of(const Passes& passes) {
  return passes.empty() ? -1 : *std::max_element(passes.begin(), passes.end());
}

bool has_aux_state_of(const Manifest& part, const Domain& domain) {
  return std::any_of(part.aux_state.begin(), part.aux_state.end(),
                     [&](const AuxField& field) { return field.domain == domain; });
}

// Whether reduction i would advance the memory of its domain at the same time as an earlier one: both
// walk the domain's entries, each in a space of its own, in one launch.
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
  throw Error(str_cat(part.name, ": the reduction ", reduction.name,
                      " takes the entries of one that its condition leaves out"));
}

// Each reduction of a part after those it depends on, none before its pass `first`, by number.
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

ResolvedReduction planned(const Reduction& reduction, const Manifest& part, Dtype parameter) {
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

// Which reductions of a rule `update_state` waits for: those it reads, and what they depend on.
std::vector<bool> read_by_update_state(const Manifest& rule) {
  std::vector<bool> read(rule.reductions.size());
  for (std::size_t i = read.size(); i-- > 0;) {
    read[i] = read[i] || rule.reductions[i].moments;
    for (const int earlier : rule.reductions[i].after)
      if (read[i]) read[static_cast<std::size_t>(earlier)] = true;
  }
  return read;
}

// The first pass after all that `update_state` reads.
int state_known(const Manifest& rule, const Passes& passes, int ready) {
  for (std::size_t i = 0; i < passes.size(); ++i)
    if (rule.reductions[i].moments) ready = std::max(ready, passes[i] + 1);
  return ready;
}

// Whether the new values of a slot are what its codec's sums say.
bool has_no_codes(const Manifest* codec) { return codec != nullptr && codec->code == "NoCode"; }

// The passes of every part; finds out which of them know the new slots. A rule's sums over new slots wait for those of
// codecs without codes.
std::vector<Passes> all_passes(Plan& plan, const EarliestPasses& earliest) {
  const auto from = [](int pass) { return [pass](std::size_t) { return pass; }; };
  std::vector<Passes> all = {passes_of(plan, kGradientComponent, earliest, from(0))};
  const int ready = last_of(all[kGradientComponent]) + 1;
  all.push_back(passes_of(plan, kRuleComponent, earliest, from(ready)));
  plan.slots_known = state_known(plan.rule(), all[kRuleComponent], ready);
  int kept = ready;  // the first pass that knows what slots without codes will hold
  for (std::size_t part = kFirstCodecComponent; part < plan.components.size(); ++part) {
    all.push_back(passes_of(plan, static_cast<int>(part), earliest, from(plan.slots_known)));
    if (has_no_codes(plan.components[part])) kept = std::max(kept, last_of(all.back()) + 1);
  }
  const std::vector<bool> early = read_by_update_state(plan.rule());
  all[kRuleComponent] = passes_of(plan, kRuleComponent, earliest,
                                  [&](std::size_t i) { return early[i] ? ready : kept; });
  return all;
}

}  // namespace

void plan_reductions(Plan& plan, const EarliestPasses& earliest) {
  const auto passes = all_passes(plan, earliest);
  plan.reductions.clear();
  plan.passes = 0;
  int over_space = kNestedLayout, taken = 0;
  for (std::size_t part = 0; part < passes.size(); ++part) {
    const std::size_t first = plan.reductions.size();
    for (std::size_t local = 0; local < passes[part].size(); ++local) {
      const Reduction& reduction = plan.components[part]->reductions[local];
      ResolvedReduction one = planned(reduction, *plan.components[part], plan.spec.state.dtype);
      one.component = static_cast<int>(part);
      one.local = static_cast<int>(local);
      one.pass = passes[part][local];
      if (one.active()) one.number = taken++;
      plan.passes = std::max(plan.passes, one.pass + 1);
      if (one.has_source) {
        one.source_number =
            plan.reductions[first + static_cast<std::size_t>(*reduction.source)].number;
        one.reduction_layout = over_space;
        if (one.active() && over_space++ >= kReductionLayouts)
          throw Error(str_cat(plan.spec.rule, " takes more than ",
                              kReductionLayouts - kNestedLayout,
                              " reductions over the entries of others"));
      }
      plan.reductions.push_back(std::move(one));
    }
  }
  if (taken > kMaxReductions)
    throw Error(str_cat(plan.spec.rule, " with these codecs takes ", taken, " reductions; ",
                        kMaxReductions, " are the most. Keep some slots in another codec"));
}

}  // namespace jitstep::jit
