#include "jitstep/jit/plan.h"

#include <algorithm>
#include <set>

#include "jit/base/text.h"
#include "jit/codegen/complete.h"
#include "jitstep/args.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::jit {
namespace {

std::string name_of(const KernelSpec& spec) {
  std::vector<std::string> codecs;
  for (const auto& choice : spec.slots) {
    if (choice) codecs.push_back(choice->name);
  }
  const bool same = std::set(codecs.begin(), codecs.end()).size() == 1;
  if (same) codecs.resize(1);
  std::string out = spec.rule;
  for (const auto& codec : codecs) out += "_" + codec;
  out += "_" + to_string(spec.parameter);
  if (spec.weights != "native") out += "_" + spec.weights;
  return out;
}

void find_manifests(Plan& plan, const Catalog& catalog) {
  const KernelSpec& spec = plan.spec;
  plan.parts = {&catalog.gradient(), &catalog.rule(spec.rule)};
  for (const auto& choice : spec.slots)
    plan.parts.push_back(choice ? &catalog.codec(choice->name) : nullptr);
  plan.weights = &catalog.weights(spec.weights);
}

void check_limits(const Plan& plan) {
  std::size_t reductions = 0, memory = 0;
  for (const Manifest* part : plan.parts) {
    if (part == nullptr) continue;
    reductions += part->reductions.size();
    memory += part->memory.size();
  }
  const auto check = [&](std::size_t count, int most, const char* what) {
    if (count <= static_cast<std::size_t>(most)) return;
    throw Error(text(plan.spec.rule, " with these codecs takes ", count, " ", what, "; ", most,
                     " are the most. Keep some slots in another codec"));
  };
  check(reductions, kMaxReductions, "reductions");
  check(memory, kMaxMemory, "fields of memory");
}

// ---- passes ------------------------------------------------------------------------------------

using Passes = std::vector<int>;

int last_of(const Passes& passes) {
  return passes.empty() ? -1 : *std::max_element(passes.begin(), passes.end());
}

bool is_taken(const Reduction& reduction, const NamedValues& flags) {
  return !reduction.condition || reduction.condition->holds(flags);
}

// A rule's reductions: after the gradient's, each after those it depends on.
Passes rule_passes(const Plan& plan, int first) {
  Passes passes;
  for (const Reduction& reduction : plan.rule().reductions) {
    int pass = first;
    for (const int earlier : reduction.after)
      pass = std::max(pass, passes[static_cast<std::size_t>(earlier)] + 1);
    if (!is_taken(reduction, plan.flags(kRulePart))) pass = -1;
    if (pass >= 0 && reduction.over && passes[static_cast<std::size_t>(*reduction.over)] < 0) {
      throw Error(text(plan.rule().name, ": the reduction ", reduction.name,
                       " takes the entries of one that its condition leaves out"));
    }
    passes.push_back(pass);
  }
  return passes;
}

Passes uniform_passes(const Plan& plan, int part, int pass) {
  Passes passes;
  if (plan.parts[part] == nullptr) return passes;
  for (const Reduction& reduction : plan.parts[part]->reductions)
    passes.push_back(is_taken(reduction, plan.flags(part)) ? pass : -1);
  return passes;
}

// The pass of every reduction of every part.
std::vector<Passes> all_passes(const Plan& plan) {
  std::vector<Passes> all = {uniform_passes(plan, kGradientPart, 0)};
  const int ready = last_of(all[kGradientPart]) + 1;
  all.push_back(rule_passes(plan, ready));
  int moments = ready;  // the first pass that knows the new slots
  for (std::size_t i = 0; i < all[kRulePart].size(); ++i) {
    if (plan.rule().reductions[i].moments) moments = std::max(moments, all[kRulePart][i] + 1);
  }
  for (int part = kFirstCodecPart; part < static_cast<int>(plan.parts.size()); ++part)
    all.push_back(uniform_passes(plan, part, moments));
  return all;
}

// ---- numbers -----------------------------------------------------------------------------------

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

void number_reductions(Plan& plan) {
  const auto passes = all_passes(plan);
  int over_space = kOverSpace;
  for (std::size_t part = 0; part < passes.size(); ++part) {
    const int first = static_cast<int>(plan.reductions.size());
    for (std::size_t local = 0; local < passes[part].size(); ++local) {
      const Reduction& reduction = plan.parts[part]->reductions[local];
      PlannedReduction one = planned(reduction, *plan.parts[part], plan.spec.parameter);
      one.number = static_cast<int>(plan.reductions.size());
      one.part = static_cast<int>(part);
      one.local = static_cast<int>(local);
      one.pass = passes[part][local];
      plan.passes = std::max(plan.passes, one.pass + 1);
      if (one.over) {
        one.over_number = first + *reduction.over;
        one.space = over_space;
        if (one.taken() && over_space++ >= kSpaces)
          throw Error(text(plan.spec.rule, " takes more than ", kSpaces - kOverSpace,
                           " reductions over the entries of others"));
      }
      plan.reductions.push_back(std::move(one));
    }
  }
}

void number_memory(Plan& plan) {
  for (std::size_t part = 0; part < plan.parts.size(); ++part) {
    if (plan.parts[part] == nullptr) continue;
    for (const MemoryField& field : plan.parts[part]->memory) {
      const int bytes = field.is_double ? 8 : real_bytes(plan.spec.parameter);
      plan.memory.push_back({static_cast<int>(plan.memory.size()), static_cast<int>(part),
                             field.name, field.torch_name, field.domain, bytes, field.is_double,
                             field.initial});
    }
  }
}

}  // namespace

const NamedValues& Plan::flags(int part) const {
  if (part == kGradientPart) return spec.gradient_flags;
  if (part == kRulePart) return spec.flags;
  return spec.slots[static_cast<std::size_t>(part - kFirstCodecPart)]->options;
}

int Plan::block(int slot) const {
  if (codec(slot) == nullptr) return 1;
  const NamedValues& options = flags(codec_part(slot));
  const auto found = options.find("block");
  return found == options.end() ? 1 : static_cast<int>(found->second.number());
}

Plan resolve(const KernelSpec& spec, const Catalog& catalog) {
  Plan plan;
  plan.spec = complete(spec, catalog);
  plan.name = name_of(plan.spec);
  find_manifests(plan, catalog);
  check_limits(plan);
  number_reductions(plan);
  number_memory(plan);
  return plan;
}

Plan resolve(const OptionValues& options, const CodecChoice& state, const Catalog& catalog) {
  options.validate();
  KernelSpec spec{.rule = options.rule().name,
                  .flags = options.flags(),
                  .gradient_flags = options.gradient_flags()};
  spec.slots.assign(options.rule().slots.size(), state);
  return resolve(spec, catalog);
}

void share_sums(const std::vector<KernelSpec*>& specs, const Catalog& catalog) {
  const auto takes_all = [&](const KernelSpec* spec) {
    const auto reductions = resolve(*spec, catalog).reductions;
    return std::any_of(reductions.begin(), reductions.end(),
                       [](const auto& r) { return r.everywhere && r.taken(); });
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
