#include "optim/optimizer/step_numbers.h"

namespace jitstep {

int set_for(std::vector<HyperSet>& sets, std::vector<int>& made, const HyperSet& numbers,
            std::int64_t t, const torch::Tensor& lag) {
  for (int set : made)
    if (sets[set].t == t && !lag.defined()) return set;
  sets.push_back(numbers);
  sets.back().t = t;
  const int set = static_cast<int>(sets.size()) - 1;
  if (lag.defined())
    sets.back().lag = reinterpret_cast<int64*>(lag.data_ptr());
  else
    made.push_back(set);
  return set;
}

const float* address(const torch::Tensor& number) {
  return number.defined() ? number.const_data_ptr<float>() : nullptr;
}

void count_empty(const StepParameter& parameter, const torch::Tensor& found_inf) {
  if (found_inf.defined() && parameter.p->numel() == 0)
    parameter.state->t.lag().add_(found_inf.reshape({}).ne(0));
}

bool is_skipped(const StepExtras& extras) {
  return extras.found_inf.defined() && extras.found_inf.item<float>() != 0;
}

}  // namespace jitstep
