#include "jit/step/convert.h"

#include "jit/base/text.h"
#include "jit/codegen/unit_text.h"
#include "jit/step/device_table.h"
#include "jit/step/step_checks.h"
#include "jit/step/step_tables.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/unit.h"

namespace jitstep::jit {
namespace {

// An entry of schedules/step.cuh: of the weights or, with its number, of a slot.
struct Direction {
  const char* name;
  int slot = -1;
};

Unit conversion_unit(const Plan& plan, const Variant& variant, const Direction& way) {
  const std::string of = way.slot < 0 ? "" : text("_", way.slot);
  const std::string arguments = way.slot < 0 ? "" : text("<", way.slot, ">");
  const std::string entry = text("jitstep_", way.name, of);
  return {text(way.name, of, "_", plan.name),
          text(include_text(plan), "#include \"schedules/step.cuh\"\n", kernel_text(plan, variant),
               "JITSTEP_ENTRY(", entry, ", ", way.name, arguments, ")\n"),
          0,
          {entry}};
}

void refuse_tensor_sums(const Plan& plan, int slot) {
  for (const auto& r : plan.reductions)
    if (r.part == codec_part(slot))
      throw Error(text("the slot ", plan.rule().slots[static_cast<std::size_t>(slot)].name,
                       " in the codec ", plan.codec(slot)->name,
                       " has a scale that only a step can sum up over the whole tensor: values "
                       "and state of another codec cannot be put into it; keep the codec that "
                       "the state has, or begin without state"));
}

void convert(Machine& machine, const KeptTensor& what, const Direction& way,
             const Conversion& values) {
  check_tensors(what.plan, {what.tensor});
  const Variant variant = default_variant(what.plan, machine.target());
  const Unit source = conversion_unit(what.plan, variant, way);
  const auto launches =
      machine.launches(machine.load(source.text, source.name), source.entries, variant.threads);
  const StepTables tables = step_tables({what.tensor}, {}, 0, variant);
  HyperSet next{};  // of the step to come
  next.t = what.t + 1;
  DeviceTable<TensorRecord> tensors;
  DeviceTable<HyperSet> sets;
  DeviceTable<Item> items;
  tensors.send(machine, tables.tensors);
  sets.send(machine, {next});
  items.send(machine, tables.apply);
  Args args{};
  args.tensors = tensors.data();
  args.sets = sets.data();
  args.items = items.data();
  args.item_count = items.size();
  args.set_count = 1;
  args.conversion = values;
  launches->launch(0, args);
}

}  // namespace

void decode_slot(Machine& machine, const KeptTensor& from, int slot, void* values) {
  convert(machine, from, {"decode", slot}, {nullptr, values});
}

void encode_slot(Machine& machine, const KeptTensor& to, int slot, const void* values) {
  refuse_tensor_sums(to.plan, slot);
  convert(machine, to, {"encode", slot}, {values, nullptr});
}

void decode_weights(Machine& machine, const KeptTensor& from, void* values) {
  convert(machine, from, {"decode_weights"}, {nullptr, values});
}

}  // namespace jitstep::jit
