#include "plan.h"

#include "backends.h"
#include "jit/codegen/shared_sums.h"
#include "jit/codegen/spec_text.h"
#include "jit/step/convert.h"
#include "jitstep/jit/error.h"

namespace jitstep::python {
namespace {

char* address(const nb::object& tensor) {
  return tensor.is_valid() && !tensor.is_none() ? read(tensor).data : nullptr;
}

// Sizes of a field's entries: 1 for each reduced dimension, as torch has them. None for one value per tensor.
std::vector<std::int64_t> entry_sizes(const jit::Domain& domain,
                                      const std::vector<std::int64_t>& sizes) {
  if (domain.kind == jit::Domain::Kind::tensor) return {};
  const unsigned reduced = domain.reduced(static_cast<int>(sizes.size()));
  std::vector<std::int64_t> entries = sizes;
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (reduced >> d & 1u) entries[d] = 1;
  return entries;
}

std::vector<std::int64_t> matrix_sizes(const jit::StateLayout::AuxState& matrix) {
  if (matrix.columns == 0) return {0, 0};
  return {matrix.entries / matrix.columns, matrix.columns};
}

// The real view of a complex tensor has another dimension. Rows and columns would then be other elements.
void check_complex(const jit::Plan& plan) {
  using Kind = jit::Domain::Kind;
  const auto is_whole = [](const jit::Domain& domain) {
    return domain.kind == Kind::tensor || domain.kind == Kind::all;
  };
  bool whole = true;
  for (const auto& field : plan.aux_state) whole = whole && is_whole(field.domain) && !field.matrix;
  for (const auto& sum : plan.reductions) whole = whole && (!sum.active() || is_whole(sum.domain));
  if (!whole)
    throw jit::Error(plan.rule().class_name +
                     " does not support complex parameters with these options.");
}

}  // namespace

ParamPlan::ParamPlan(Group& group, nb::handle p, int index, std::vector<std::int64_t> whole)
    : number(index) {
  const TensorView view = read(p);
  if (!view.dtype)
    throw jit::Error("its dtype is not supported. Use " + std::string(jit::kDtypeList) +
                     ", or a complex dtype.");
  shape = view.shape();
  device = view.device;
  if (!jit::is_non_overlapping(shape))
    throw jit::Error(
        "it has elements that share memory, as expand() makes them. Use a contiguous() copy.");
  if (!whole.empty() && view.is_complex) whole.push_back(2);  // as its view has them
  plan = group.plan(*view.dtype, whole.empty() ? shape.sizes : whole);
  if (view.is_complex) check_complex(*plan);
  const jit::OptionValues& values = group.values();
  layout = jit::state_layout(
      *plan, shape,
      jit::initial_aux_state(*plan, values, static_cast<std::size_t>(number - group.first)));
  for (const jit::Slot& slot : plan->rule().slots)
    slot_initial.push_back(values.initial(slot.initial));
  hyper = values.hyper();
}

ParamPlan ParamPlan::with(const jit::KernelSpec& spec) const {
  ParamPlan other = *this;
  auto changed = std::make_shared<jit::Plan>(jit::resolve(spec, *plan->catalog));
  changed->sizes = plan->sizes;
  other.plan = std::move(changed);
  other.layout =
      jit::state_layout(*other.plan, shape, std::vector<double>(other.plan->aux_state.size()));
  return other;
}

ParamPlan ParamPlan::with_codec(int slot, const std::string& format) const {
  jit::KernelSpec spec = plan->spec;
  spec.state.slots.at(static_cast<std::size_t>(slot)) = jit::parse_codec(format);
  return with(spec);
}

ParamPlan ParamPlan::with_strides(const std::vector<std::int64_t>& strides) const {
  if (strides.size() != shape.sizes.size())
    throw jit::Error("the checkpoint has strides of another number of dimensions.");
  ParamPlan other = *this;
  other.shape.strides = strides;
  return other;
}

ParamPlan ParamPlan::with_offset(std::int64_t first) const {
  ParamPlan other = *this;
  other.offset = first;
  return other;
}

bool ParamPlan::needs_all_tensors() const { return jit::needs_all_tensors(*plan); }

bool ParamPlan::is_elementwise() const { return jit::is_elementwise(*plan); }

ParamPlan ParamPlan::with_weights(const std::string& format) const {
  jit::KernelSpec spec = plan->spec;
  spec.state.weights = format;
  return with(spec);
}

std::vector<SlotInfo> ParamPlan::slots() const {
  std::vector<SlotInfo> slots;
  for (std::size_t i = 0; i < layout.slots.size(); ++i) {
    const jit::StateLayout::Slot& bytes = layout.slots[i];
    const bool stored = plan->codec(static_cast<int>(i)) != nullptr;
    slots.push_back({plan->rule().slots[i].torch_name,
                     stored ? jit::to_json(*plan->spec.state.slots[i]) : std::string(),
                     bytes.values, bytes.codes, bytes.meta, plan->block(static_cast<int>(i)),
                     slot_initial[i]});
  }
  return slots;
}

std::string ParamPlan::slot_name(int component) const {
  const auto slot = static_cast<std::size_t>(component - jit::kFirstCodecComponent);
  return plan->rule().slots[slot].torch_name;
}

std::vector<AuxInfo> ParamPlan::aux() const {
  std::vector<AuxInfo> fields;
  for (std::size_t i = 0; i < layout.aux_state.size(); ++i) {
    const jit::ResolvedAuxState& field = plan->aux_state[i];
    const bool of_rule = field.component == jit::kRuleComponent;
    fields.push_back(
        {of_rule ? field.torch_name : slot_name(field.component) + "." + field.name,
         field.matrix ? matrix_sizes(layout.aux_state[i]) : entry_sizes(field.domain, shape.sizes),
         field.bytes == 8, layout.aux_state[i].initial,
         of_rule ? -1 : field.component - jit::kFirstCodecComponent, field.matrix.has_value()});
  }
  return fields;
}

bool ParamPlan::same_codes(int slot, const std::string& format) const {
  const auto& own = plan->spec.state.slots.at(static_cast<std::size_t>(slot));
  return own && jit::same_codes(*own, jit::parse_codec(format), *plan->catalog);
}

jit::StepTensor ParamPlan::tensor(const Buffers& buffers) const {
  jit::StepTensor tensor;
  tensor.p = address(buffers.p);
  tensor.residual = address(buffers.residual);
  tensor.residual_is_set = buffers.residual_is_set;
  for (const auto& [codes, scales] : buffers.slots)
    tensor.slots.push_back({address(codes), address(scales)});
  for (std::size_t i = 0; i < buffers.aux.size(); ++i) {
    char* const first = address(buffers.aux[i]);
    const jit::StateLayout::AuxState& field = layout.aux_state.at(i);
    char* const second =
        first == nullptr || field.is_matrix ? first : first + field.entries * field.bytes;
    tensor.aux_state.push_back({first, second});
  }
  tensor.shape = shape;
  tensor.g_strides = shape.strides;
  tensor.id = number;
  tensor.offset = offset;
  tensor.whole_sizes = plan->sizes;
  tensor.layout = layout;
  return tensor;
}

bool is_strided(const jit::StepTensor& tensor) {
  const auto compact = jit::compact_strides(tensor.shape);
  return !jit::is_dense(tensor.shape, compact) ||
         !jit::is_dense({tensor.shape.sizes, tensor.g_strides}, compact);
}

namespace {

// The tensor without the parameter's own gaps: state is in its storage order.
jit::StepTensor stored(const ParamPlan& plan, const Buffers& buffers) {
  jit::StepTensor tensor = plan.tensor(buffers);
  tensor.shape.strides = tensor.g_strides = plan.compact_strides();
  return tensor;
}

}  // namespace

void ParamPlan::decode(const Buffers& from, std::int64_t t, int slot, nb::handle values) const {
  const jit::StepTensor tensor = stored(*this, from);
  char* const to = read(values).data;
  const nb::gil_scoped_release release;
  if (slot < 0)
    jit::decode_weights(backend_of(device), {*plan, tensor, t, hyper}, to);
  else
    jit::decode_slot(backend_of(device), {*plan, tensor, t, hyper}, slot, to);
}

void ParamPlan::encode(const Buffers& to, std::int64_t t, int slot, nb::handle values) const {
  const jit::StepTensor tensor = stored(*this, to);
  const char* const from = read(values).data;
  const nb::gil_scoped_release release;
  if (slot < 0)
    jit::encode_weights(backend_of(device), {*plan, tensor, t, hyper}, from);
  else
    jit::encode_slot(backend_of(device), {*plan, tensor, t, hyper}, slot, from);
}

}  // namespace jitstep::python
