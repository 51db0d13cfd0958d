#include "optim/optimizer/step_hyper_params.h"

namespace jitstep {
namespace {

const float* address(const torch::Tensor& number) {
  return number.defined() ? number.const_data_ptr<float>() : nullptr;
}

}  // namespace

void StepHyperParams::start(const std::vector<HyperParams>& groups, const StepExtras& extras) {
  groups_ = &groups;
  grad_scale_ = address(extras.grad_scale);
  found_inf_ = address(extras.found_inf);
  all_.clear();
  shared_.resize(groups.size());
  for (auto& of_group : shared_) of_group.clear();
  last_.assign(groups.size(), {});
}

int StepHyperParams::add(std::size_t group, std::int64_t t, const torch::Tensor& step_offset) {
  if (!step_offset.defined())
    for (const int one : shared_[group])
      if (all_[static_cast<std::size_t>(one)].t == t) return (last_[group] = {t, one}).index;
  const int index = static_cast<int>(all_.size());
  HyperParams& added = all_.emplace_back((*groups_)[group]);
  added.t = t;
  added.grad_scale = grad_scale_;
  added.found_inf = found_inf_;
  if (step_offset.defined()) {
    added.step_offset = reinterpret_cast<int64*>(step_offset.data_ptr());
  } else {
    shared_[group].push_back(index);
    last_[group] = {t, index};
  }
  return index;
}

void count_skipped_if_empty(const StepParam& param, const torch::Tensor& found_inf) {
  // `whole` is 0 unless this is a part. Kernels count the steps of an empty part, but not of an empty parameter.
  if (param.p->numel() == 0 && param.buffers->whole == 0)
    param.buffers->t.step_offset().add_(found_inf.reshape({}).ne(0));
}

bool is_skipped(const StepExtras& extras) {
  return extras.found_inf.defined() && extras.found_inf.item<float>() != 0;
}

}  // namespace jitstep
