#include "optim/tensor/memory_overlap.h"

#include <torch/types.h>

#include <tuple>

#include "jit/step/shared_memory.h"
#include "jitstep/jit/layout.h"
#include "optim/tensor/kernel_tensors.h"

namespace jitstep {
namespace {

// data_ptr() separates a copy-on-write tensor, because the step will write to it.
jit::Elements elements_in_memory(const torch::Tensor& t) {
  return jit::elements_at(t.data_ptr(), t.sizes(), t.strides(), t.itemsize());
}

std::tuple<std::size_t, std::size_t> order_of(const StepMemory& memory) {
  return {memory.parameter.name.group, memory.parameter.name.index};
}

std::string text_of(const StepMemory& memory) {
  const NamedParameter& parameter = memory.parameter;
  if (memory.use == StepMemory::Use::number) return "an lr, grad_scale or found_inf";
  const std::string name = describe(*parameter.tensor, parameter.name);
  if (memory.use == StepMemory::Use::parameter) return name;
  return (memory.use == StepMemory::Use::state ? "the state of " : "the gradient of ") + name;
}

using OnOverlap = void(const StepMemory& a, const StepMemory& b);

[[noreturn]] void throw_overlap(const StepMemory& a, const StepMemory& b) {
  const bool in_order = order_of(a) < order_of(b);
  const StepMemory &first = in_order ? a : b, &second = in_order ? b : a;
  TORCH_CHECK(false, "jitstep: ", text_of(first), " and ", text_of(second),
              " share memory, and both would write to it at once. Give the optimizer the tensor "
              "that both are views of, or clone() one of them.");
}

// Throws if one of the two is a gradient that the step clears.
void refuse_clearing(const StepMemory& a, const StepMemory& b) {
  const bool first = a.use == StepMemory::Use::cleared;
  if (!first && b.use != StepMemory::Use::cleared) return;
  const StepMemory &gradient = first ? a : b, &other = first ? b : a;
  TORCH_CHECK(false, "jitstep: ", text_of(gradient),
              ", which the step clears (zero_grad_in_step()), shares memory with ", text_of(other),
              ". clone() it, or call zero_grad() after the step instead.");
}

// The same tensor may be listed more than once.
void check_memory(const std::vector<StepMemory>& all, OnOverlap* on_overlap) {
  std::vector<const StepMemory*> with_data;
  std::vector<jit::Elements> elements;
  for (const StepMemory& one : all)
    if (has_data(*one.tensor)) {
      with_data.push_back(&one);
      elements.push_back(elements_in_memory(*one.tensor));
    }
  jit::find_shared(elements, [&](std::size_t i, std::size_t j) {
    if (with_data[i]->tensor != with_data[j]->tensor) on_overlap(*with_data[i], *with_data[j]);
  });
}

// A step reads each element of such a gradient before it writes that element of the parameter.
bool is_the_parameter(const torch::Tensor& gradient, const torch::Tensor& p) {
  return gradient.const_data_ptr() == p.const_data_ptr() && gradient.strides() == p.strides() &&
         gradient.scalar_type() == p.scalar_type();
}

const void* storage_of(const torch::Tensor& t) {
  return t.unsafeGetTensorImpl()->unsafe_storage().data();
}

}  // namespace

void ParameterMemory::add(const NamedParameter& parameter) {
  if (has_data(*parameter.tensor))
    storages_[storage_of(*parameter.tensor)].push_back({*parameter.tensor, parameter.name});
}

void ParameterMemory::check(const torch::Tensor& gradient, const NamedParameter& own) const {
  if (!has_data(gradient)) return;
  const auto found = storages_.find(storage_of(gradient));
  if (found == storages_.end()) return;
  for (const Parameter& other : found->second)
    TORCH_CHECK(
        (other.tensor.is_same(*own.tensor) && is_the_parameter(gradient, other.tensor)) ||
            !share_memory(other.tensor, gradient),
        "jitstep: the gradient of ", describe(*own.tensor, own.name), " shares memory with ",
        describe(other.tensor, other.name),
        ", and the step would write to it while it reads the gradient. clone() the gradient.");
}

void ParameterMemory::check_number(const torch::Tensor& number, const std::string& name) const {
  if (!number.defined()) return;
  TORCH_CHECK(has_data(number), "jitstep: ", name,
              " has no data: its storage was freed, or torch only marks it as zero. Set another "
              "tensor, or an undefined one for none.");
  const auto found = storages_.find(storage_of(number));
  if (found == storages_.end()) return;
  for (const Parameter& one : found->second)
    TORCH_CHECK(!share_memory(one.tensor, number), "jitstep: ", name, " shares memory with ",
                describe(one.tensor, one.name),
                ", and the step would write to it while it reads the number. clone() the number.");
}

bool share_memory(const torch::Tensor& a, const torch::Tensor& b) {
  return jit::share_memory(elements_in_memory(a), elements_in_memory(b));
}

void check_disjoint(const std::vector<NamedParameter>& parameters) {
  std::vector<StepMemory> memory;
  for (const NamedParameter& parameter : parameters)
    memory.push_back({parameter.tensor, parameter});
  check_memory(memory, throw_overlap);
}

void check_cleared(const std::vector<StepMemory>& memory) {
  for (const StepMemory& one : memory)
    TORCH_CHECK(
        one.use != StepMemory::Use::cleared || jit::is_non_overlapping(shape_of(*one.tensor)),
        "jitstep: ", text_of(one),
        ", which the step clears (zero_grad_in_step()), has elements that share memory, as after ",
        "expand(). clone() it, or call zero_grad() after the step instead.");
  check_memory(memory, refuse_clearing);
}

}  // namespace jitstep
