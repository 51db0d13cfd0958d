#include "jitstep/jit/plan.h"

#include <algorithm>
#include <set>

#include "jit/base/text.h"
#include "jit/codegen/complete.h"
#include "jit/codegen/passes.h"
#include "jitstep/args.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::jit {
namespace {

std::string name_of(const KernelSpec& spec) {
  std::vector<std::string> codecs;
  for (const auto& choice : spec.state.slots) {
    if (choice) codecs.push_back(choice->name);
  }
  const bool same = std::set(codecs.begin(), codecs.end()).size() == 1;
  if (same) codecs.resize(1);
  std::string out = spec.rule;
  for (const auto& codec : codecs) out += "_" + codec;
  out += "_" + to_string(spec.state.dtype);
  if (spec.state.weights != "native") out += "_" + spec.state.weights;
  return out;
}

void find_manifests(Plan& plan, const Catalog& catalog) {
  const KernelSpec& spec = plan.spec;
  plan.parts = {&catalog.gradient(), &catalog.rule(spec.rule, spec.edition)};
  for (const auto& choice : spec.state.slots)
    plan.parts.push_back(choice ? &catalog.codec(choice->name, spec.edition) : nullptr);
  plan.weights = &catalog.weights(spec.state.weights);
}

// What a codec's sums find out reaches it through its memory.
void check_codec_sums(const Plan& plan) {
  for (const PlannedReduction& r : plan.reductions)
    if (r.part >= kFirstCodecPart && r.everywhere && r.taken())
      throw Error(
          text("the codec ", plan.parts[r.part]->name, " sums `", r.name,
               "` over all tensors, but its Memory belongs to one; sum over `tensor`, or over ",
               "a part of it"));
}

bool is_taken(const Plan& plan, int part, const MemoryField& field) {
  return !field.condition || field.condition->holds(plan.flags(part));
}

PlannedMemory planned(const Plan& plan, const MemoryField& field, int part) {
  const std::size_t slot = static_cast<std::size_t>(part - kFirstCodecPart);
  const std::string owner = part < kFirstCodecPart ? "" : plan.rule().slots[slot].name + ".";
  const Dtype parameter = plan.spec.state.dtype;
  return {.part = part,
          .name = field.name,
          .torch_name = field.torch_name,
          .key = owner + field.name,
          .domain = field.domain,
          .bytes = field.is_double ? 8 : real_bytes(parameter),
          .is_double = field.is_double,
          .initial = field.initial};
}

// What belongs to a tensor comes first: these numbers index what is kept for it.
void number_memory(Plan& plan) {
  for (int part = 0; part < std::ssize(plan.parts); ++part) {
    if (plan.parts[part] == nullptr) continue;
    for (const MemoryField& field : plan.parts[part]->memory) {
      auto& fields = field.is_common() ? plan.common : plan.memory;
      if (is_taken(plan, part, field)) fields.push_back(planned(plan, field, part));
    }
  }
  int number = 0;
  for (PlannedMemory& field : plan.memory) field.number = number++;
  for (PlannedMemory& field : plan.common)
    field.number = number++, field.place = field.number - static_cast<int>(plan.memory.size());
}

// Whether the options' flags are the kernel's, for a tensor of some number of dimensions. A kernel that can
// divide by a scale takes any.
bool has_flags_of(const OptionValues& options, const KernelSpec& spec) {
  NamedValues gradient_flags = options.gradient_flags();
  if (spec.gradient_flags.at("scaled").boolean()) gradient_flags["scaled"] = true;
  if (gradient_flags != spec.gradient_flags) return false;
  for (int dims = 1; dims <= kMaxDims; ++dims)
    if (options.flags(dims) == spec.flags) return true;
  return false;
}

void check_memory(const Plan& plan) {
  const std::size_t fields = plan.memory.size() + plan.common.size();
  if (fields <= kMaxMemory) return;
  throw Error(text(plan.spec.rule, " with these codecs takes ", fields, " fields of memory; ",
                   kMaxMemory, " are the most. Keep some slots in another codec"));
}

}  // namespace

const NamedValues& Plan::flags(int part) const {
  if (part == kGradientPart) return spec.gradient_flags;
  if (part == kRulePart) return spec.flags;
  return spec.state.slots[static_cast<std::size_t>(part - kFirstCodecPart)]->options;
}

int Plan::block(int slot) const {
  if (codec(slot) == nullptr) return 1;
  const NamedValues& options = flags(codec_part(slot));
  const auto found = options.find("block");
  return found == options.end() ? 1 : static_cast<int>(found->second.number());
}

HyperSet Plan::at_step(const OptionValues& options, std::int64_t t, std::uint64_t seed) const {
  options.validate();
  if (options.rule().source != rule().source || !has_flags_of(options, spec))
    throw Error(text("the options (", options.rule().name, ": ", to_string(options.flags()), ", ",
                     to_string(options.gradient_flags()), ") are not those of the kernel ",
                     to_string(spec), "; resolve() them again, and make a new step of that plan"));
  if (t < 1) throw Error(text("the step number is ", t, "; steps are counted from 1"));
  return options.at_step(t, seed);
}

Plan resolve(const KernelSpec& spec, const Catalog& catalog) {
  Plan plan;
  plan.spec = complete(spec, catalog);
  plan.name = name_of(plan.spec);
  find_manifests(plan, catalog);
  plan_reductions(plan, {});
  check_codec_sums(plan);
  number_memory(plan);
  check_memory(plan);
  return plan;
}

Plan resolve(const OptionValues& options, const CodecChoice& state, const Catalog& catalog) {
  options.validate();
  KernelSpec spec{.rule = options.rule().name,
                  .flags = options.flags(),
                  .gradient_flags = options.gradient_flags()};
  spec.edition = options.edition();
  for (const Slot& slot : options.rule().slots)
    spec.state.slots.emplace_back(slot.keeps.empty() ? state : CodecChoice{slot.keeps});
  return resolve(spec, catalog);
}

}  // namespace jitstep::jit
