#include "optim/state/state_operations.h"

#include <atomic>

#include "jit/base/text.h"
#include "jit/step/convert.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/layout.h"
#include "jitstep/jit/plan.h"
#include "optim/tensor/backends.h"
#include "optim/tensor/errors.h"
#include "optim/tensor/kernel_tensors.h"
#include "optim/tensor/memory_overlap.h"

namespace jitstep {
namespace {

void* address(const torch::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr() : nullptr;
}

torch::Tensor bytes_like(const torch::Tensor& p, std::int64_t bytes) {
  return torch::zeros({bytes}, p.options().dtype(torch::kUInt8).requires_grad(false));
}

bool is_wide(const StateBuffers& state, int slot) {
  return state.plan->codec(slot)->code == "real";
}

// A tensor of zeros with the parameter's sizes and storage order, without gaps.
torch::Tensor zeros_of(const torch::Tensor& p, torch::Dtype dtype) {
  const auto options = p.options().dtype(dtype).requires_grad(false);
  if (p.dim() == 0) return torch::zeros({}, options);
  return torch::empty_strided(p.sizes(), jit::compact_strides(shape_of(p)), options).zero_();
}

StateBuffers::Slot make_slot(const torch::Tensor& p, const jit::Plan& plan, int slot) {
  if (plan.codec(slot) == nullptr) return {};
  const jit::StateLayout::Slot layout = jit::slot_layout(plan, slot, p.numel());
  if (layout.values) return {zeros_of(p, real_dtype(plan.spec.state.dtype)), {}};
  return {bytes_like(p, layout.codes),
          layout.meta > 0 ? bytes_like(p, layout.meta) : torch::Tensor()};
}

// True if the tensor has so many contiguous bytes on the device of p. For 0 bytes it may be undefined.
bool are_bytes(const torch::Tensor& tensor, std::int64_t bytes, const torch::Tensor& p) {
  if (!tensor.defined() || bytes == 0)
    return bytes == 0 && (!tensor.defined() || tensor.numel() == 0);
  return tensor.scalar_type() == torch::kUInt8 && tensor.is_contiguous() &&
         tensor.numel() == bytes && tensor.device() == p.device() && has_data(tensor);
}

bool are_values(const torch::Tensor& tensor, const torch::Tensor& p) {
  return tensor.defined() && tensor.is_floating_point() && tensor.sizes() == p.sizes() &&
         tensor.device() == p.device() && (p.numel() == 0 || has_data(tensor));
}

// True if the slot's tensors have the dtype, size and device that kernels expect.
bool is_valid(const StateBuffers& state, const torch::Tensor& p, int slot) {
  const auto& [codes, meta] = state.slots[slot];
  if (is_wide(state, slot)) return are_values(codes, p);
  const jit::StateLayout::Slot layout = jit::slot_layout(*state.plan, slot, p.numel());
  return are_bytes(codes, layout.codes, p) && are_bytes(meta, layout.meta, p);
}

void check_slot(const StateBuffers& state, const torch::Tensor& p, int slot) {
  if (is_valid(state, p, slot)) return;
  const jit::Plan& plan = *state.plan;
  const auto& name = plan.rule().slots[slot].torch_name;
  TORCH_CHECK(!is_wide(state, slot), "jitstep: the slot ", name, " has no values of the shape ",
              p.sizes(), " of its parameter. Set its values, or erase the state.");
  const jit::StateLayout::Slot layout = jit::slot_layout(plan, slot, p.numel());
  TORCH_CHECK(false, "jitstep: the slot ", name, " does not have the ", layout.codes,
              " bytes of codes and ", layout.meta, " bytes of scales that ", plan.codec(slot)->name,
              " needs for a parameter of shape ", p.sizes(),
              ". Set its values, or erase the state.");
}

}  // namespace

std::int64_t StateBuffers::bytes() const {
  std::int64_t sum = 0;
  for_each_tensor([&](const torch::Tensor& tensor) {
    sum += tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
  });
  return sum;
}

void StateBuffers::move_to_host() {
  const auto move = [](torch::Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.cpu();
  };
  for (Slot& slot : slots) {
    move(slot.codes);
    move(slot.meta);
  }
  for (AuxState& field : aux_state) {
    const bool is_matrix = field.is_matrix();
    move(field.buffers[0]);
    if (is_matrix) field.buffers[1] = field.buffers[0];
    move(field.buffers[1]);
  }
  move(residual);
}

std::int64_t next_revision() {
  static std::atomic<std::int64_t> last{0};
  return ++last;
}

void check_sign(const jit::Slot& slot, const torch::Tensor& values) {
  TORCH_CHECK(
      slot.is_signed || !values.defined() || !has_data(values) || !values.lt(0).any().item<bool>(),
      "jitstep: invalid values for the slot ", slot.torch_name,
      ": some are negative. Give values of 0 or more.");
}

std::vector<StateBuffers::AuxState> make_aux_state(const torch::Tensor& p, const jit::Plan& plan,
                                                   const std::vector<double>& initial) {
  std::vector<StateBuffers::AuxState> aux_state;
  for (const auto& field : jit::state_layout(plan, shape_of(p), initial).aux_state) {
    const auto options = p.options().requires_grad(false).dtype(field.bytes == 8 ? torch::kFloat64
                                                                                 : torch::kFloat32);
    const std::string& key = plan.aux_state[aux_state.size()].key;
    if (field.is_matrix) {
      const auto matrix = torch::zeros({field.entries}, options);
      if (field.entries > 0) matrix.view({-1, field.columns}).fill_diagonal_(field.initial);
      aux_state.push_back({key, {matrix, matrix}});
      continue;
    }
    const auto full = torch::full({field.entries}, field.initial, options);
    aux_state.push_back({key, {full, full.clone()}});
  }
  return aux_state;
}

StateBuffers make_state(const torch::Tensor& p, std::shared_ptr<const jit::Plan> plan, int id,
                        const std::vector<double>& initial_aux_state) {
  StateBuffers state = state_outline(std::move(plan));
  state.id = id;
  for (std::size_t i = 0; i < state.slots.size(); ++i)
    state.slots[i] = make_slot(p, *state.plan, static_cast<int>(i));
  state.aux_state = make_aux_state(p, *state.plan, initial_aux_state);
  const int residual = state.plan->weights->residual_bytes();
  if (residual > 0) state.residual = bytes_like(p, residual * p.numel());
  return state;
}

StateBuffers state_outline(std::shared_ptr<const jit::Plan> plan) {
  StateBuffers outline;
  outline.format = plan->spec.state;
  outline.slots.resize(outline.format.slots.size());
  outline.aux_state.resize(plan->aux_state.size());
  outline.plan = std::move(plan);
  return outline;
}

jit::StepTensor step_tensor(const torch::Tensor& p, const StateBuffers& state,
                            torch::IntArrayRef g_strides) {
  jit::StepTensor tensor;
  tensor.p = p.data_ptr();
  tensor.residual = address(state.residual);
  tensor.residual_is_set = state.residual_is_set;
  for (const auto& slot : state.slots)
    tensor.slots.push_back({address(slot.codes), address(slot.meta)});
  for (const auto& [key, buffers] : state.aux_state)
    tensor.aux_state.push_back({address(buffers[0]), address(buffers[1])});
  tensor.shape = shape_of(p);
  tensor.g_strides = p.dim() == 0 ? std::vector<std::int64_t>{1} : g_strides.vec();
  tensor.id = state.id;
  tensor.offset = state.first;
  tensor.whole = state.whole;
  if (state.whole > 0) tensor.whole_sizes = state.plan->sizes;
  return tensor;
}

torch::Tensor decode_slot(const StateBuffers& state, const torch::Tensor& p, int slot) {
  const auto& codes = state.slots[slot].codes;
  if (!codes.defined() || is_wide(state, slot)) return codes;
  torch::Tensor values = zeros_of(p, real_dtype(state.format.dtype));
  if (state.t == 0 && !state.initial.empty())
    values.fill_(state.initial.at(static_cast<std::size_t>(slot)));
  if (state.t == 0 || p.numel() == 0) return values;
  check_slot(state, p, slot);
  as_torch_error([&] {
    jit::decode_slot(backend_of(p.device()),
                     {*state.plan, step_tensor(p, state, p.strides()), state.t}, slot,
                     values.data_ptr());
  });
  return values;
}

torch::Tensor decode_weights(const StateBuffers& state, const torch::Tensor& p) {
  torch::Tensor values = zeros_of(p, real_dtype(state.format.dtype));
  if (p.numel() == 0) return values;
  torch::Tensor dense = p;  // the kernel reads parameters without gaps
  if (!p.is_non_overlapping_and_dense()) dense = zeros_of(p, p.scalar_type()).copy_(p.detach());
  as_torch_error([&] {
    jit::decode_weights(backend_of(p.device()),
                        {*state.plan, step_tensor(dense, state, dense.strides()), state.t},
                        values.data_ptr());
  });
  return values;
}

void encode_slot(StateBuffers& state, const torch::Tensor& p, int slot,
                 const torch::Tensor& values) {
  TORCH_CHECK(values.sizes() == p.sizes(), "jitstep: state values of shape ", values.sizes(),
              " for a parameter of shape ", p.sizes(),
              ". Erase the state to start again, or restore the parameter's shape.");
  TORCH_CHECK(values.is_floating_point() && values.layout() == torch::kStrided,
              "jitstep: state values of ", values.dtype(), " and layout ", values.layout(),
              ". Use dense floating-point values.");
  if (!is_valid(state, p, slot)) state.slots[slot] = make_slot(p, *state.plan, slot);
  if (is_wide(state, slot)) {
    state.slots[slot].codes.copy_(values);
    return;
  }
  torch::Tensor ordered = zeros_of(p, real_dtype(state.format.dtype));
  ordered.copy_(values);
  if (p.numel() == 0) return;
  as_torch_error([&] {
    jit::encode_slot(backend_of(p.device()),
                     {*state.plan, step_tensor(p, state, p.strides()), state.t, state.hyper}, slot,
                     ordered.data_ptr());
  });
}

void check_slots(const StateBuffers& state, const torch::Tensor& p) {
  for (std::size_t i = 0; i < state.slots.size(); ++i)
    if (state.slots[i].codes.defined()) check_slot(state, p, static_cast<int>(i));
}

}  // namespace jitstep
