#include "jit/step/convert.h"

#include "jit/base/text.h"
#include "jit/codegen/unit_text.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/unit.h"

namespace jitstep::jit {
namespace {

Unit conversion_unit(const Plan& plan, const Variant& variant, int slot,
                     const std::string& direction) {
  Unit unit;
  const std::string entry = text("jitstep_", direction, "_", slot);
  unit.name = text(direction, "_", slot, "_", plan.name);
  unit.text =
      text(include_text(plan), "#include \"schedules/step.cuh\"\n", kernel_text(plan, variant),
           "JITSTEP_ENTRY(", entry, ", ", direction, "<", slot, ">)\n");
  unit.entries = {entry};
  return unit;
}

void refuse_tensor_sums(const Plan& plan, int slot, const std::string& direction) {
  if (direction != "encode") return;
  for (const auto& r : plan.reductions)
    if (r.part == codec_part(slot))
      throw Error(text("codec ", plan.codec(slot)->name,
                       " takes its scale from sums over the whole "
                       "tensor and cannot be set from values; load it in its own format"));
}

}  // namespace

void convert_slot(Machine& machine, const Plan& plan, const StepTensor& tensor, int slot,
                  const std::string& direction, void* values, std::int64_t t) {
  refuse_tensor_sums(plan, slot, direction);
  const Variant variant = default_variant(plan, machine.target());
  const Unit source = conversion_unit(plan, variant, slot, direction);
  const auto launches =
      machine.launches(machine.load(source.text, source.name), source.entries, variant.threads);
  const StepTables tables = step_tables({tensor}, {}, 0, variant);
  // Step 1 would read initial values, and decoding reads what the step before has written.
  HyperSet set{};
  set.t = t + 1 > 1 ? t + 1 : 2;
  const StepRecord step{values, 0, tables.layout[0]};
  const auto send = [&](const void* from, std::size_t bytes) {
    auto memory = machine.allocate(bytes);
    machine.upload(memory.get(), from, bytes);
    return memory;
  };
  const auto records = send(tables.tensors.data(), sizeof(TensorRecord));
  const auto steps = send(&step, sizeof step), sets = send(&set, sizeof set);
  const auto items = send(tables.apply.data(), tables.apply.size() * sizeof(Item));
  Args args{};
  args.tensors = static_cast<const TensorRecord*>(records.get());
  args.steps = static_cast<const StepRecord*>(steps.get());
  args.sets = static_cast<const HyperSet*>(sets.get());
  args.items = static_cast<const Item*>(items.get());
  args.item_count = static_cast<std::int64_t>(tables.apply.size());
  args.set_count = 1;
  launches->launch(0, args);
}

}  // namespace jitstep::jit
