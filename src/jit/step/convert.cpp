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
  bool encodes = false;
};

// Whether a slot's codec needs the results of reductions to encode.
bool sums_first(const Plan& plan, int slot) {
  return std::any_of(plan.reductions.begin(), plan.reductions.end(),
                     [&](const ResolvedReduction& r) {
                       return r.component == codec_component(slot) && r.active();
                     });
}

// The internal rule with one slot, which is signed like `slot`. It stores the gradient in it.
const char* slot_rule(const Slot& slot) {
  return slot.is_signed ? "jitstep_signed_slot" : "jitstep_non_negative_slot";
}

Dtype real_dtype(const StoredTensor& of) {
  return of.plan.spec.state.dtype == Dtype::float64 ? Dtype::float64 : Dtype::float32;
}

// The value of one of a rule's numbers: that of the tensor, or the default.
double number_of(const StoredTensor& of, const std::string& name) {
  const OptionLayout layout(of.plan.rule(), of.plan.gradient());
  const PackedOption& number = *layout.find(name);
  return of.hyper.empty() ? number.option->initial.number() : of.hyper.at(number.index);
}

// The codec of a slot, with constants in place of the rule's numbers. Only reductions read numbers. Without them, the
// codec has its default numbers.
CodecChoice codec_of_slot(const StoredTensor& of, int slot, bool reads_numbers) {
  CodecChoice choice = of.plan.spec.state.slots[static_cast<std::size_t>(slot)].value();
  for (const Option& number : of.plan.codec(slot)->hyper) {
    Value& value = choice.options.at(number.name);
    if (!reads_numbers) value = number.initial;
    if (value.is_choice()) value = number_of(of, value.choice());
  }
  return choice;
}

// The plan of the internal rule, with the codec of the tensor's slot.
Plan plan_of_slot(const StoredTensor& of, int slot, bool reads_numbers) {
  const Dtype real = real_dtype(of);
  return resolve({.rule = slot_rule(of.plan.rule().slots[static_cast<std::size_t>(slot)]),
                  .state = {.slots = {codec_of_slot(of, slot, reads_numbers)}, .dtype = real},
                  .gradient = real},
                 *of.plan.catalog);
}

// The plan of an internal rule, with the weight format of the tensor.
Plan plan_of_weights(const StoredTensor& of) {
  const StateFormat& state = of.plan.spec.state;
  return resolve(
      {.rule = "jitstep_signed_slot",
       .state = {.slots = {CodecChoice{"fp32"}}, .weights = state.weights, .dtype = state.dtype},
       .gradient = real_dtype(of),
       .strided = of.plan.spec.strided},
      *of.plan.catalog);
}

// The tensor with only one slot and its auxiliary state, or (-1) none. `plan`: that of the slot.
StepTensor tensor_of_slot(const StoredTensor& of, int slot, const Plan& plan) {
  StepTensor tensor = of.tensor;
  tensor.layout.reset();
  tensor.slots.clear();
  tensor.aux_state.clear();
  if (slot < 0) return tensor;
  tensor.slots = {of.tensor.slots[static_cast<std::size_t>(slot)]};
  for (const ResolvedAuxState& own : plan.aux_state)
    for (const ResolvedAuxState& field : of.plan.aux_state)
      if (field.component == codec_component(slot) && field.name == own.name)
        tensor.aux_state.push_back(of.tensor.aux_state[static_cast<std::size_t>(field.number)]);
  return tensor;
}

// A step computes the reductions that the codec's scale needs. Its step number has the parity of the last step, so that
// it writes the same buffer of auxiliary state. The rule does not read the parameter.
void encode_by_step(Backend& backend, const StoredTensor& to, int slot, const void* values) {
  const Plan plan = plan_of_slot(to, slot, true);
  const auto bytes = to.tensor.shape.elements() * real_bytes(plan.spec.state.dtype);
  const std::shared_ptr<void> parameter = backend.allocate(static_cast<std::size_t>(bytes));
  StepTensor tensor = tensor_of_slot(to, slot, plan);
  tensor.p = parameter.get();
  tensor.whole = 0;
  tensor.g_strides = tensor.shape.strides = compact_strides(tensor.shape);
  Step step(backend, {{plan, {std::move(tensor)}}});
  step.run({{.g = values}}, {plan.at_step(OptionValues(plan.spec.rule), 2 + to.t % 2)});
}

// The text has nothing of the tensor's rule, so that all rules share the kernel. Each slot has its own random bits.
Unit conversion_unit(const Plan& plan, const KernelConfig& config, const Direction& way) {
  const std::string format =
      way.slot < 0 ? plan.spec.state.weights
                   : str_cat(plan.rule().slots[0].is_signed ? "signed_" : "non_negative_",
                             plan.codec(0)->name);
  const bool random = way.encodes && has_random_slot(plan, 0);
  const std::string stream = random ? str_cat(", ", way.slot + 1) : "";
  const std::string entry = str_cat("jitstep_", way.name);
  return {str_cat(way.name, "_", format, "_", to_string(plan.spec.state.dtype)),
          str_cat(include_text(plan), "#include \"kernel/tile/convert.cuh\"\n",
                  spec_types(plan, config, Traversal::tiles),
                  "using Kernel = jitstep::Conversions<UnitSpec", stream, ">;\nJITSTEP_ENTRY(",
                  entry, ", ", way.name, ")\n"),
          {entry}};
}

void convert(Backend& backend, const StoredTensor& what, const Direction& way,
             const Conversion& values) {
  check_tensors(what.plan, {what.tensor});
  const Plan plan = way.slot < 0 ? plan_of_weights(what) : plan_of_slot(what, way.slot, false);
  const KernelConfig config = default_kernel_config(plan, backend.target());
  const Unit source = conversion_unit(plan, config, way);
  const auto launches =
      backend.launches(backend.load(source.text, source.name), source.entries, config);
  const StepTables tables = step_tables({tensor_of_slot(what, way.slot, plan)}, {}, 0, config);
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
  args.tensor_count = 1;
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
    convert(backend, to, {"encode", slot, true}, {values, nullptr});
}

void decode_weights(Backend& backend, const StoredTensor& from, void* values) {
  convert(backend, from, {"decode_weights"}, {nullptr, values});
}

void encode_weights(Backend& backend, const StoredTensor& to, const void* values) {
  convert(backend, to, {"encode_weights"}, {values, nullptr});
}

}  // namespace jitstep::jit
