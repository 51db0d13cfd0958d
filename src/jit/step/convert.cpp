#include "jit/step/convert.h"

#include <algorithm>

#include "jit/base/args.h"
#include "jit/base/text.h"
#include "jit/codegen/translation_unit.h"
#include "jit/codegen/unit.h"
#include "jit/manifest/option_layout.h"
#include "jit/step/device_table.h"
#include "jit/step/step_checks.h"
#include "jit/step/step_tables.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/step.h"

namespace jitstep::jit {
namespace {

// An entry of kernel/tile/convert.cuh, for the weights or for a slot.
struct Direction {
  const char* name;
  int slot = -1;
};

Unit conversion_unit(const Plan& plan, const KernelConfig& config, const Direction& way) {
  const std::string of = way.slot < 0 ? "" : str_cat("_", way.slot);
  const std::string arguments = way.slot < 0 ? "" : str_cat("<", way.slot, ">");
  const std::string entry = str_cat("jitstep_", way.name, of);
  return {str_cat(way.name, of, "_", plan.name),
          str_cat(include_text(plan), "#include \"kernel/tile/convert.cuh\"\n",
                  spec_types(plan, config, Traversal::tiles),
                  "using Kernel = jitstep::Conversions<UnitSpec>;\nJITSTEP_ENTRY(", entry, ", ",
                  way.name, arguments, ")\n"),
          {entry}};
}

// Whether a slot's codec needs the results of reductions to encode.
bool sums_first(const Plan& plan, int slot) {
  return std::any_of(plan.reductions.begin(), plan.reductions.end(),
                     [&](const ResolvedReduction& r) {
                       return r.component == codec_component(slot) && r.active();
                     });
}

// The rule that stores the gradient in its only slot. The slot is signed like `slot`.
OptionValues slot_rule(const Slot& slot) {
  return OptionValues(slot.is_signed ? "jitstep_signed_slot" : "jitstep_non_negative_slot");
}

// The value of one of a rule's numbers: that of the tensor, or the default.
double number_of(const StoredTensor& of, const std::string& name) {
  const OptionLayout layout(of.plan.rule(), of.plan.gradient());
  const PackedOption& number = *layout.find(name);
  return of.hyper.empty() ? number.option->initial.number() : of.hyper.at(number.index);
}

// The codec of a slot, with constants in place of the rule's numbers.
CodecChoice codec_of_slot(const StoredTensor& of, std::size_t slot) {
  CodecChoice choice = of.plan.spec.state.slots[slot].value();
  for (const Option& number : of.plan.codec(static_cast<int>(slot))->hyper) {
    Value& value = choice.options.at(number.name);
    if (value.is_choice()) value = number_of(of, value.choice());
  }
  return choice;
}

// The plan of the internal rule, with the codec of the tensor's slot.
Plan plan_of_slot(const OptionValues& rule, const StoredTensor& of, std::size_t slot) {
  const KernelSpec& spec = of.plan.spec;
  const Dtype real = spec.state.dtype == Dtype::float64 ? Dtype::float64 : Dtype::float32;
  return resolve({.rule = rule.rule().name,
                  .state = {.slots = {codec_of_slot(of, slot)}, .dtype = real},
                  .gradient = real},
                 *of.plan.catalog);
}

// A tensor for that plan with the slot's buffers and auxiliary state. The rule does not read the parameter.
StepTensor tensor_of_slot(const StoredTensor& to, int slot, const Plan& plan, void* parameter) {
  StepTensor tensor;
  tensor.p = parameter;
  tensor.slots = {to.tensor.slots[static_cast<std::size_t>(slot)]};
  for (const ResolvedAuxState& own : plan.aux_state)
    for (const ResolvedAuxState& field : to.plan.aux_state)
      if (field.component == codec_component(slot) && field.name == own.name)
        tensor.aux_state.push_back(to.tensor.aux_state[static_cast<std::size_t>(field.number)]);
  tensor.g_strides = compact_strides(to.tensor.shape);
  tensor.shape = {to.tensor.shape.sizes, tensor.g_strides};
  tensor.id = to.tensor.id;
  tensor.offset = to.tensor.offset;
  return tensor;
}

// A step computes the reductions that the codec's scale needs. Its step number has the parity of the last step, so that
// it writes the same buffer of auxiliary state.
void encode_by_step(Backend& backend, const StoredTensor& to, int slot, const void* values) {
  const std::size_t number = static_cast<std::size_t>(slot);
  const OptionValues rule = slot_rule(to.plan.rule().slots[number]);
  const Plan plan = plan_of_slot(rule, to, number);
  const auto bytes = to.tensor.shape.elements() * real_bytes(plan.spec.state.dtype);
  const std::shared_ptr<void> parameter = backend.allocate(static_cast<std::size_t>(bytes));
  Step step(backend, {{plan, {tensor_of_slot(to, slot, plan, parameter.get())}}});
  step.run({{.g = values}}, {plan.at_step(rule, 2 + to.t % 2)});
}

void convert(Backend& backend, const StoredTensor& what, const Direction& way,
             const Conversion& values) {
  check_tensors(what.plan, {what.tensor});
  const KernelConfig config = default_kernel_config(what.plan, backend.target());
  const Unit source = conversion_unit(what.plan, config, way);
  const auto launches =
      backend.launches(backend.load(source.text, source.name), source.entries, config);
  const StepTables tables = step_tables({what.tensor}, {}, 0, config);
  HyperParams next{};  // of the next step
  next.t = what.t + 1;
  DeviceTable<TensorRecord> tensors;
  DeviceTable<HyperParams> hyper_params;
  DeviceTable<Item> items;
  tensors.send(backend, tables.tensors);
  hyper_params.send(backend, {next});
  items.send(backend, tables.apply);
  Args args{};
  args.tensors = tensors.data();
  args.hyper_params = hyper_params.data();
  args.items = items.data();
  args.item_count = items.size();
  args.hyper_params_count = 1;
  args.conversion = values;
  launches->launch(0, args);
}

}  // namespace

void decode_slot(Backend& backend, const StoredTensor& from, int slot, void* values) {
  convert(backend, from, {"decode", slot}, {nullptr, values});
}

void encode_slot(Backend& backend, const StoredTensor& to, int slot, const void* values) {
  const bool sums = sums_first(to.plan, slot);
  if (sums && to.tensor.whole > to.tensor.shape.elements())
    throw Error(str_cat("cannot encode a part of the tensor with id ", to.tensor.id, ": the codec ",
                        to.plan.codec(slot)->name,
                        " needs a sum over the whole tensor. Encode the whole tensor."));
  if (sums)
    encode_by_step(backend, to, slot, values);
  else
    convert(backend, to, {"encode", slot}, {values, nullptr});
}

void decode_weights(Backend& backend, const StoredTensor& from, void* values) {
  convert(backend, from, {"decode_weights"}, {nullptr, values});
}

void encode_weights(Backend& backend, const StoredTensor& to, const void* values) {
  convert(backend, to, {"encode_weights"}, {values, nullptr});
}

}  // namespace jitstep::jit
