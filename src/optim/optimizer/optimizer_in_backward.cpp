// Steps inside backward(): each parameter separately, as soon as its gradient is complete.
#include <torch/types.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include "jit/codegen/shared_sums.h"
#include "jitstep/jit/plan.h"
#include "optim/optimizer/offload.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
namespace {

constexpr const char* kStepsInBackward = "an optimizer that steps in backward()";

void check_alone(const torch::Tensor& p, const ParameterName& name, const std::string& rule,
                 bool needs_all_tensors) {
  TORCH_CHECK(!needs_all_tensors, "jitstep: step_in_backward() cannot step ", describe(p, name),
              " of ", rule,
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
  TORCH_CHECK(!impl_->sharding,
              "jitstep: step_in_backward() does not work with shard(): ranks must ",
              "take a step together. Call step() after backward().");
  const OwnOperations own;
  impl_->sync_groups();
  check_unskipped(impl_->extras.found_inf);
  for (std::size_t g = 0; g < impl_->groups.size(); ++g) {
    const Impl::Group& group = impl_->groups[g];
    impl_->refresh_options(g);
    for (std::size_t i = 0; i < group.param_records.size(); ++i) {
      const torch::Tensor& p = param_groups_[g].params()[i];
      check_alone(p, {g, i}, group.rule, with_context(p, {g, i}, [&] {
                    return jit::needs_all_tensors(*group.record.plan(p));
                  }));
    }
  }
  if (!impl_->memory_checked) impl_->check_memory();
  impl_->hook_gradients();
}

bool Optimizer::steps_in_backward() const { return impl_->hooks.has_value(); }

// Checks parameters before they are added, because the hooks of the others are removed first. Those that have records
// may have a hook of this optimizer.
void Optimizer::Impl::check_hooks(const ParamGroup& added) const {
  if (offload) offload->check_hooks(added.params());
  if (!hooks) return;
  std::set<void*> known;
  for (const Group& group : groups)
    for (const ParamRecord& record : group.param_records) known.insert(record.key);
  std::vector<torch::Tensor> others;
  std::copy_if(added.params().begin(), added.params().end(), std::back_inserter(others),
               [&](const torch::Tensor& p) { return !known.contains(key_of(p)); });
  GradHooks::check_free(kStepsInBackward, others);
}

// Replaces all hooks by hooks on the current parameters.
void Optimizer::Impl::hook_gradients() {
  hooks.reset();
  std::vector<torch::Tensor> parameters;
  std::vector<ParameterName> names;
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (std::size_t i = 0; i < groups[g].param_records.size(); ++i) {
      if (groups[g].param_records[i].repeated) continue;
      parameters.push_back(param_groups()[g].params()[i]);
      names.push_back({g, i});
    }
  hooks.emplace(kStepsInBackward, std::move(parameters),
                [this, names = std::move(names)](std::size_t parameter) {
                  const std::lock_guard lock(stepping);
                  step_alone(names[parameter]);
                });
}

void Optimizer::Impl::step_alone(const ParameterName& name) {
  const OwnOperations own;
  check_training();
  const auto& [g, i] = name;
  TORCH_CHECK(g < param_groups().size() && i < param_groups()[g].params().size() &&
                  key_of(param_groups()[g].params()[i]) == groups[g].param_records[i].key,
              "jitstep: the parameters of group ", g, " changed after step_in_backward(). ",
              "Call it again.");
  collect_alone(name);
  ParamRecord& param_record = groups[g].param_records[i];
  if (!param_record.alone) param_record.alone.emplace();
  StepExtras alone = extras_of_step();
  alone.clears = false;  // the gradient is reset below instead
  with_rollback([&] {
    count_steps();
    param_record.alone->step({active, inactive, hyper_params}, nullptr, alone, transform());
  });
  return_parameters();
  forget_inputs();
  param_record.parameter->mutable_grad().reset();
}

// Like gather_inputs() for a single parameter, so that its step does not visit the other parameters.
void Optimizer::Impl::collect_alone(const ParameterName& name) {
  const auto& [g, i] = name;
  const torch::Tensor& p = param_groups()[g].params()[i];
  start_gathering();
  refresh_options(g);
  gather_params(g, i, i + 1, Operation::step);
  check_alone(p, name, groups[g].rule, groups[g].param_records[i].needs_all_tensors);
  check_unskipped(extras.found_inf);
  check_extras();
  if (!memory_checked) check_memory();
  check_new_gradients();
  use_host_copies();
}

}  // namespace jitstep
