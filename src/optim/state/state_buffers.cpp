#include "jitstep/state_buffers.h"

#include "jit/base/text.h"
#include "jit/step/convert.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/layout.h"
#include "jitstep/jit/state_memory.h"
#include "optim/tensor/kernel_tensors.h"
#include "optim/tensor/machines.h"

namespace jitstep {
namespace {

torch::Tensor bytes_like(const torch::Tensor& p, std::int64_t bytes) {
  return torch::zeros({bytes}, p.options().dtype(torch::kUInt8).requires_grad(false));
}

bool is_wide(const jit::KernelSpec& spec, int slot) {
  return jit::default_catalog().codec(spec.slots[slot]->name).code == "real";
}

torch::Dtype real_dtype(const jit::KernelSpec& spec) {
  return spec.parameter == jit::Dtype::float64 ? torch::kFloat64 : torch::kFloat32;
}

// The parameter's sizes in storage order without gaps, filled with zeros.
torch::Tensor zeros_of(const torch::Tensor& p, torch::Dtype dtype) {
  const auto options = p.options().dtype(dtype).requires_grad(false);
  if (p.dim() == 0) return torch::zeros({}, options);
  return torch::empty_strided(p.sizes(), jit::compact_strides(shape_of(p)), options).zero_();
}

StateBuffers::Slot make_slot(const torch::Tensor& p, const jit::Plan& plan, int slot) {
  if (plan.codec(slot) == nullptr) return {};
  if (plan.codec(slot)->code == "real") return {zeros_of(p, real_dtype(plan.spec)), {}};
  const auto [codes, meta] = jit::slot_bytes(plan, slot, p.numel());
  return {bytes_like(p, codes), meta > 0 ? bytes_like(p, meta) : torch::Tensor()};
}

// Runs one conversion entry over one slot; values: as wide as the arithmetic, in element order.
void convert(const StateBuffers& state, const torch::Tensor& p, int slot, const char* direction,
             void* values) {
  if (p.numel() == 0) return;
  jit::Machine& machine = machine_of(p.device());
  jit::convert_slot(machine, jit::resolve(state.spec), kernel_tensor(p, state, p.strides()), slot,
                    direction, values, state.t);
}

}  // namespace

std::int64_t StateBuffers::bytes() const {
  std::int64_t sum = extra.defined() ? extra.nbytes() : 0;
  for (const auto& slot : slots) {
    if (slot.codes.defined()) sum += slot.codes.nbytes();
    if (slot.meta.defined()) sum += slot.meta.nbytes();
  }
  for (const auto& pair : memory)
    for (const auto& tensor : pair) sum += tensor.nbytes();
  return sum;
}

StateBuffers make_state(const torch::Tensor& p, const jit::KernelSpec& spec, int id,
                        const std::vector<double>& initial_memory) {
  const jit::Plan plan = jit::resolve(spec);
  StateBuffers state;
  state.spec = spec;
  state.id = id;
  for (std::size_t i = 0; i < spec.slots.size(); ++i)
    state.slots.push_back(make_slot(p, plan, static_cast<int>(i)));
  const jit::Shape shape = shape_of(p);
  const auto& planned = plan.memory;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const auto reduced = planned[i].domain.reduced(static_cast<int>(shape.sizes.size()));
    const auto options = p.options().requires_grad(false).dtype(
        planned[i].is_double ? torch::kFloat64 : real_dtype(spec));
    const auto full =
        torch::full({jit::extent(shape, reduced).entries}, initial_memory[i], options);
    state.memory.push_back({full, full.clone()});
  }
  const int extra = plan.weights->extra_bytes();
  if (extra > 0) state.extra = bytes_like(p, extra * p.numel());
  return state;
}

torch::Tensor decode_slot(const StateBuffers& state, const torch::Tensor& p, int slot) {
  const auto& codes = state.slots[slot].codes;
  if (!codes.defined() || is_wide(state.spec, slot)) return codes;
  torch::Tensor values = zeros_of(p, real_dtype(state.spec));
  if (state.t > 0) convert(state, p, slot, "decode", values.data_ptr());
  return values;
}

void encode_slot(StateBuffers& state, const torch::Tensor& p, int slot,
                 const torch::Tensor& values) {
  TORCH_CHECK(values.sizes() == p.sizes(), "state values of shape ", values.sizes(),
              " for a parameter of shape ", p.sizes(),
              "; erase its state to start anew, or give it its shape back");
  TORCH_CHECK(values.is_floating_point() && values.layout() == torch::kStrided, "state values of ",
              values.dtype(), " and layout ", values.layout(), "; use dense floating point values");
  auto& codes = state.slots[slot].codes;
  if (is_wide(state.spec, slot)) {
    codes.copy_(values);
    return;
  }
  torch::Tensor ordered = zeros_of(p, real_dtype(state.spec));
  ordered.copy_(values);
  convert(state, p, slot, "encode", ordered.data_ptr());
}

}  // namespace jitstep
