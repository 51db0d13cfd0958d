#include "jitstep/jit/plan.h"

#include <algorithm>

#include "jit/base/text.h"
#include "jitstep/args.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

// The gradient, the rule, the codec of each slot; without a manifest where a slot is left out.
struct PlannedPart {
  const Manifest* manifest = nullptr;
  NamedValues flags;
};

std::vector<PlannedPart> parts_of(const KernelSpec& spec, const Catalog& catalog) {
  std::vector<PlannedPart> parts = {{&catalog.gradient(), spec.gradient_flags},
                                    {&catalog.rule(spec.rule), spec.flags}};
  for (const auto& choice : spec.slots) {
    if (choice)
      parts.push_back({&catalog.codec(choice->name), choice->options});
    else
      parts.push_back({});
  }
  return parts;
}

using Passes = std::vector<int>;

int last_of(const Passes& passes) {
  return passes.empty() ? -1 : *std::max_element(passes.begin(), passes.end());
}

bool is_taken(const Reduction& reduction, const NamedValues& flags) {
  return !reduction.condition || reduction.condition->holds(flags);
}

// A rule's reductions: after the gradient's, each after those it depends on.
Passes rule_passes(const PlannedPart& rule, int first) {
  Passes passes;
  for (const Reduction& reduction : rule.manifest->reductions) {
    int pass = first;
    for (const int earlier : reduction.after)
      pass = std::max(pass, passes[static_cast<std::size_t>(earlier)] + 1);
    if (!is_taken(reduction, rule.flags)) pass = -1;
    if (pass >= 0 && reduction.over && passes[static_cast<std::size_t>(*reduction.over)] < 0) {
      throw Error(text(rule.manifest->name, ": the reduction ", reduction.name,
                       " takes the entries of one that its condition leaves out"));
    }
    passes.push_back(pass);
  }
  return passes;
}

Passes uniform_passes(const PlannedPart& part, int pass) {
  Passes passes;
  for (const Reduction& reduction : part.manifest->reductions)
    passes.push_back(is_taken(reduction, part.flags) ? pass : -1);
  return passes;
}

// The pass of every reduction of every part.
std::vector<Passes> all_passes(const std::vector<PlannedPart>& parts) {
  std::vector<Passes> all = {uniform_passes(parts[0], 0)};
  const int ready = last_of(all[0]) + 1;
  all.push_back(rule_passes(parts[1], ready));
  int moments = ready;  // the first pass that knows the new slots
  for (std::size_t i = 0; i < all[1].size(); ++i) {
    if (parts[1].manifest->reductions[i].moments) moments = std::max(moments, all[1][i] + 1);
  }
  for (std::size_t i = 2; i < parts.size(); ++i)
    all.push_back(parts[i].manifest == nullptr ? Passes{} : uniform_passes(parts[i], moments));
  return all;
}

PlannedReduction planned(const Reduction& reduction, const Manifest& part, Dtype parameter) {
  PlannedReduction out;
  out.name = reduction.name;
  out.op = reduction.op;
  out.domain = reduction.domain;
  out.space = reduction.domain.space();
  out.terms = reduction.terms;
  out.everywhere = reduction.domain.kind == Domain::Kind::all;
  out.over = reduction.over.has_value();
  if (out.over) out.over_domain = part.reductions[static_cast<std::size_t>(*reduction.over)].domain;
  out.coefficient_bytes = bytes_of(reduction.fields, parameter);
  return out;
}

}  // namespace

std::vector<PlannedReduction> planned_reductions(const KernelSpec& given, const Catalog& catalog) {
  const KernelSpec spec = complete(given, catalog);
  const auto parts = parts_of(spec, catalog);
  const auto passes = all_passes(parts);
  std::vector<PlannedReduction> all;
  int over_space = kOverSpace;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int first = static_cast<int>(all.size());
    for (std::size_t j = 0; j < passes[i].size(); ++j) {
      const Reduction& reduction = parts[i].manifest->reductions[j];
      PlannedReduction one = planned(reduction, *parts[i].manifest, spec.parameter);
      one.number = static_cast<int>(all.size());
      one.part = static_cast<int>(i);
      one.local = static_cast<int>(j);
      one.pass = passes[i][j];
      if (one.over) {
        one.over_number = first + *reduction.over;
        one.space = over_space;
        if (one.pass >= 0 && over_space++ >= kSpaces)
          throw Error(text(spec.rule, " takes more than ", kSpaces - kOverSpace,
                           " reductions over the entries of others"));
      }
      all.push_back(std::move(one));
    }
  }
  return all;
}

std::vector<PlannedMemory> planned_memory(const KernelSpec& given, const Catalog& catalog) {
  const KernelSpec spec = complete(given, catalog);
  const auto parts = parts_of(spec, catalog);
  std::vector<PlannedMemory> all;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].manifest == nullptr) continue;
    for (const MemoryField& field : parts[i].manifest->memory) {
      const int bytes = field.is_double ? 8 : real_bytes(spec.parameter);
      all.push_back({static_cast<int>(all.size()), static_cast<int>(i), field.name,
                     field.torch_name, field.domain, bytes, field.is_double, field.initial});
    }
  }
  return all;
}

int pass_count(const std::vector<PlannedReduction>& reductions) {
  int last = -1;
  for (const PlannedReduction& reduction : reductions) last = std::max(last, reduction.pass);
  return last + 1;
}

void share_sums(const std::vector<KernelSpec*>& specs, const Catalog& catalog) {
  const auto takes_all = [&](const KernelSpec* spec) {
    const auto reductions = planned_reductions(*spec, catalog);
    return std::any_of(reductions.begin(), reductions.end(),
                       [](const auto& r) { return r.everywhere && r.pass >= 0; });
  };
  if (specs.size() < 2 || std::none_of(specs.begin(), specs.end(), takes_all)) return;
  for (const Option& flag : catalog.gradient().flags) {
    if (!flag.lifted) continue;
    const auto is_on = [&](const KernelSpec* spec) {
      const auto found = spec->gradient_flags.find(flag.name);
      return found != spec->gradient_flags.end() && found->second == Value(true);
    };
    if (std::none_of(specs.begin(), specs.end(), is_on)) continue;
    for (KernelSpec* spec : specs) spec->gradient_flags.insert_or_assign(flag.name, Value(true));
  }
}

}  // namespace jitstep::jit
