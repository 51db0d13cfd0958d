#include "optim/optimizer/step_hyper_params.h"

namespace jitstep {

int hyper_index_for(std::vector<HyperParams>& hyper_params, std::vector<int>& made,
                    const HyperParams& base, std::int64_t t, const torch::Tensor& step_offset) {
  for (const int one : made)
    if (hyper_params[one].t == t && !step_offset.defined()) return one;
  hyper_params.push_back(base);
  hyper_params.back().t = t;
  const int hyper_index = static_cast<int>(hyper_params.size()) - 1;
  if (step_offset.defined())
    hyper_params.back().step_offset = reinterpret_cast<int64*>(step_offset.data_ptr());
  else
    made.push_back(hyper_index);
  return hyper_index;
}

const float* address(const torch::Tensor& number) {
  return number.defined() ? number.const_data_ptr<float>() : nullptr;
}

void count_empty(const StepParameter& parameter, const torch::Tensor& found_inf) {
  if (found_inf.defined() && parameter.p->numel() == 0)
    parameter.state->t.step_offset().add_(found_inf.reshape({}).ne(0));
}

bool is_skipped(const StepExtras& extras) {
  return extras.found_inf.defined() && extras.found_inf.item<float>() != 0;
}

}  // namespace jitstep
