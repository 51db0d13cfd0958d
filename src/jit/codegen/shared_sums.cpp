#include "jit/codegen/shared_sums.h"

#include <algorithm>

#include "jit/base/text.h"
#include "jit/codegen/passes.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

bool is_sum(const ResolvedReduction& r) { return r.is_global && r.active(); }

SumName name_of(const Plan& plan, const ResolvedReduction& r) {
  return {r.component, plan.components[r.component]->name, r.name};
}

// The active gradient options without which the gradient would not have this reduction.
std::vector<std::string> flags_behind(const Plan& plan, const ResolvedReduction& r) {
  std::vector<std::string> behind;
  const auto& condition = plan.gradient().reductions[static_cast<std::size_t>(r.local)].condition;
  for (const Option& flag : plan.gradient().flags) {
    NamedValues without = plan.spec.gradient_flags;
    if (!flag.lifted || !condition || without.at(flag.name) == Value(false)) continue;
    without.insert_or_assign(flag.name, Value(false));
    if (!condition->holds(without)) behind.push_back(flag.name);
  }
  return behind;
}

void activate(Plan& plan, const std::vector<std::string>& flags) {
  for (const std::string& flag : flags)
    plan.spec.gradient_flags.insert_or_assign(flag, Value(true));
  plan_reductions(plan, {});
}

// Gives every plan the gradient sums that any of them has.
void share_gradient_sums(std::vector<Plan>& plans) {
  for (const Plan& one : std::vector<Plan>(plans)) {
    for (const ResolvedReduction& r : one.reductions) {
      if (r.component != kGradientComponent || !is_sum(r)) continue;
      for (Plan& plan : plans)
        if (find_sum(plan, name_of(one, r)) == nullptr) activate(plan, flags_behind(one, r));
    }
  }
}

bool same_reductions(const Manifest& a, const Manifest& b) {
  if (a.source != b.source) return false;
  const auto same = [](const Reduction& x, const Reduction& y) {
    return x.name == y.name && x.op == y.op && x.domain == y.domain && x.terms == y.terms &&
           x.after == y.after && x.section == y.section;
  };
  return std::equal(a.reductions.begin(), a.reductions.end(), b.reductions.begin(),
                    b.reductions.end(), same);
}

// Two catalogs may have different files of one name, and one catalog two revisions of a file.
void check_same_sums(const Plan& a, const Plan& b) {
  for (const SumName& name : sums_of(a)) {
    if (find_sum(b, name) == nullptr ||
        same_reductions(*a.components[name.component], *b.components[name.component]))
      continue;
    throw Error(str_cat("cannot step these kernels together: two files, or two revisions of one, ",
                        "declare the sum '", name.name, "' of ", name.declared_by,
                        " over all tensors. Use the same file, or step them separately."));
  }
}

}  // namespace

bool needs_all_tensors(const Plan& plan) {
  return !plan.shared_state.empty() ||
         std::any_of(plan.reductions.begin(), plan.reductions.end(), is_sum);
}

bool is_elementwise(const Plan& plan) {
  const bool reduces = std::any_of(plan.reductions.begin(), plan.reductions.end(),
                                   [](const ResolvedReduction& r) { return r.active(); });
  const bool per_tensor =
      std::all_of(plan.aux_state.begin(), plan.aux_state.end(), [](const ResolvedAuxState& field) {
        return field.domain.kind == Domain::Kind::tensor && field.component == kRuleComponent;
      });
  return !reduces && per_tensor && plan.shared_state.empty() && plan.rule().transforms.empty();
}

std::vector<SumName> sums_of(const Plan& plan) {
  std::vector<SumName> names;
  for (const ResolvedReduction& r : plan.reductions)
    if (is_sum(r)) names.push_back(name_of(plan, r));
  return names;
}

const ResolvedReduction* find_sum(const Plan& plan, const SumName& name) {
  for (const ResolvedReduction& r : plan.reductions)
    if (is_sum(r) && name_of(plan, r) == name) return &r;
  return nullptr;
}

void share_sums(std::vector<Plan>& plans) {
  if (plans.size() < 2) return;
  share_gradient_sums(plans);
  for (const Plan& a : plans)
    for (const Plan& b : plans) check_same_sums(a, b);
  // A sum in a later pass delays the reductions that depend on it, so iterate until all plans agree.
  EarliestPasses passes;
  for (bool agreed = false; !agreed;) {
    agreed = true;
    for (Plan& plan : plans) {
      plan_reductions(plan, passes);
      for (const SumName& name : sums_of(plan)) {
        const int pass = find_sum(plan, name)->pass;
        agreed = agreed && passes[name] >= pass;
        passes[name] = std::max(passes[name], pass);
      }
    }
  }
}

}  // namespace jitstep::jit
