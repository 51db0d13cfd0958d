// Inputs of a step that a rule declares in addition to the gradient.
#include <torch/types.h>

#include <algorithm>
#include <string>
#include <vector>

#include "jit/base/closest.h"
#include "jit/base/text.h"
#include "optim/optimizer/optimizer_impl.h"
#include "optim/tensor/backends.h"
#include "optim/tensor/kernel_tensors.h"

namespace jitstep {
namespace {

// The index of an input of a rule.
std::size_t index_of_input(const jit::Manifest& rule, const std::string& name) {
  const int index = rule.input(name);
  if (index >= 0) return static_cast<std::size_t>(index);
  std::vector<std::string> known;
  for (const jit::RuleInput& one : rule.inputs) known.push_back(one.name);
  TORCH_CHECK(!known.empty(), "jitstep: set_input(): ", rule.name,
              " has no inputs in addition to the gradient.");
  TORCH_CHECK(false, "jitstep: set_input(): ", rule.name, " has no input \"", name, "\"",
              jit::did_you_mean(name, known), ". Inputs: ", jit::joined(known), ".");
}

// A copy in the order of the parameter's elements, in the dtype of the arithmetic.
torch::Tensor copy_in_element_order(const torch::Tensor& value, const torch::Tensor& p) {
  const torch::NoGradGuard no_grad;
  const auto options = p.options().dtype(real_dtype(dtype_of(p))).requires_grad(false);
  torch::Tensor memory = torch::empty({p.numel()}, options);
  if (p.numel() > 0) values_at(memory.mutable_data_ptr(), p).copy_(value);
  return memory;
}

}  // namespace

void Optimizer::set_input(const torch::Tensor& parameter, const std::string& name,
                          const torch::Tensor& value) {
  impl_->sync_groups();
  for (std::size_t g = 0; g < param_groups_.size(); ++g) {
    const auto& params = param_groups_[g].params();
    const auto found = std::find_if(params.begin(), params.end(),
                                    [&](const torch::Tensor& p) { return p.is_same(parameter); });
    if (found == params.end()) continue;
    const std::size_t index = index_of_input(impl_->group_options(g).manifest(), name);
    TORCH_CHECK(!value.defined() || value.sizes() == parameter.sizes(), "jitstep: set_input(): \"",
                name, "\" has shape ", value.defined() ? value.sizes() : parameter.sizes(),
                ", but the parameter has shape ", parameter.sizes(),
                ". Pass one value per element.");
    impl_->keep_input(parameter, index, value);
    return;
  }
  TORCH_CHECK(false,
              "jitstep: set_input(): the tensor is not a parameter of this optimizer. Pass the "
              "tensor that the optimizer got.");
}

void Optimizer::Impl::keep_input(const torch::Tensor& parameter, std::size_t index,
                                 const torch::Tensor& value) {
  torch::Tensor copy = value.defined() ? copy_in_element_order(value, parameter) : torch::Tensor();
  GivenInputs& given = given_inputs[key_of(parameter)];
  given.values.resize(std::max(given.values.size(), index + 1));
  given.values[index] = std::move(copy);
  given.parameter = TensorFingerprint(parameter, TensorFingerprint::Access::read);
  if (std::none_of(given.values.begin(), given.values.end(),
                   [](const torch::Tensor& one) { return one.defined(); }))
    given_inputs.erase(key_of(parameter));
}

const std::vector<torch::Tensor>* Optimizer::Impl::inputs_of(const ParamRecord& record) const {
  const auto given = given_inputs.find(record.key);
  if (given == given_inputs.end()) return nullptr;
  TORCH_CHECK(given->second.parameter.same_metadata(*record.parameter),
              "jitstep: ", describe(*record.parameter, record.name),
              " has another shape, dtype, device or memory format than in set_input(). Call it ",
              "again.");
  return &given->second.values;
}

// The steps of active parameters read their inputs. The allocator must not use the memory before that.
void Optimizer::Impl::forget_inputs() {
  if (given_inputs.empty()) return;
  for (StepParam* const param : active) {
    const auto given = given_inputs.find(static_cast<ParamRecord*>(param)->key);
    if (given == given_inputs.end()) continue;
    for (const torch::Tensor& value : given->second.values)
      if (value.defined() && value.is_cuda()) value.record_stream(current_stream(value.device()));
    given_inputs.erase(given);
    param->inputs = nullptr;
  }
}

}  // namespace jitstep
