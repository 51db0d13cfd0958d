// Steps inside backward(): each parameter separately, as soon as its gradient is complete.
#include <torch/types.h>

#include "jitstep/jit/plan.h"
#include "optim/optimizer/optimizer_impl.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
namespace {

void check_alone(const torch::Tensor& p, const ParameterName& name, const std::string& rule,
                 bool shares) {
  TORCH_CHECK(!shares, "jitstep: step_in_backward() cannot step ", describe(p, name), " of ", rule,
              ": max_grad_norm, another sum over all parameters, or shared state needs all ",
              "gradients at once. Leave it out, or call step_in_backward(false), and step() after ",
              "backward().");
}

void check_unskipped(const torch::Tensor& found_inf) {
  TORCH_CHECK(!found_inf.defined(), "jitstep: step_in_backward() does not work with found_inf, ",
              "which needs all gradients at once. Call set_found_inf({}), or call ",
              "step_in_backward(false), and step() after backward().");
}

}  // namespace

void Optimizer::step_in_backward(bool on) {
  if (!on) return impl_->hooks.reset();
  const OwnOperations own;
  if (!groups_unchanged()) sync_groups();
  check_unskipped(impl_->extras.found_inf);
  for (std::size_t g = 0; g < impl_->groups.size(); ++g) {
    const Impl::Group& group = impl_->groups[g];
    refresh_options(g);
    for (std::size_t i = 0; i < group.param_records.size(); ++i) {
      const torch::Tensor& p = param_groups_[g].params()[i];
      check_alone(p, {g, i}, group.rule,
                  with_context(p, {g, i}, [&] { return shares(*group.record.plan(p)); }));
    }
  }
  if (!impl_->memory_checked) check_memory();
  hook_gradients();
}

bool Optimizer::steps_in_backward() const { return impl_->hooks.has_value(); }

// Replaces all hooks by hooks on the current parameters.
void Optimizer::hook_gradients() {
  impl_->hooks.reset();
  std::vector<torch::Tensor> parameters;
  std::vector<ParameterName> names;
  for (std::size_t g = 0; g < impl_->groups.size(); ++g)
    for (std::size_t i = 0; i < impl_->groups[g].param_records.size(); ++i) {
      if (impl_->groups[g].param_records[i].repeated) continue;
      parameters.push_back(param_groups_[g].params()[i]);
      names.push_back({g, i});
    }
  impl_->hooks.emplace("an optimizer that steps in backward()", std::move(parameters),
                       [records = impl_.get(), names = std::move(names)](std::size_t parameter) {
                         const std::lock_guard lock(records->stepping);
                         records->optimizer->step_alone(names[parameter]);
                       });
}

void Optimizer::step_alone(const ParameterName& name) {
  const OwnOperations own;
  check_training();
  const auto& [g, i] = name;
  TORCH_CHECK(g < param_groups_.size() && i < param_groups_[g].params().size() &&
                  param_groups_[g].params()[i].unsafeGetTensorImpl() ==
                      impl_->groups[g].param_records[i].key,
              "jitstep: the parameters of group ", g, " changed after step_in_backward(). ",
              "Call it again.");
  collect_alone(name);
  ParamRecord& param_record = impl_->groups[g].param_records[i];
  if (!param_record.alone) param_record.alone.emplace();
  StepExtras extras = impl_->extras;
  extras.clears = false;  // the gradient is reset below instead
  with_rollback([&] {
    count_steps();
    param_record.alone->step({impl_->work, impl_->inactive, impl_->hyper_params}, nullptr, extras,
                             impl_->transform());
  });
  param_groups_[g].params()[i].mutable_grad().reset();
}

// Like gather_inputs() for a single parameter, so that its step does not visit the other parameters.
void Optimizer::collect_alone(const ParameterName& name) {
  const auto& [g, i] = name;
  const torch::Tensor& p = param_groups_[g].params()[i];
  impl_->start_gathering();
  refresh_options(g);
  gather_param(g, i, Operation::step);
  check_alone(p, name, impl_->groups[g].rule, impl_->groups[g].param_records[i].shares);
  check_unskipped(impl_->extras.found_inf);
  check_extras();
  if (!impl_->memory_checked) check_memory();
  check_new_gradients();
}

}  // namespace jitstep
