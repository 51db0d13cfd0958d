// Uses jitstep::jitstep as an outside project does. A step of AdamW must move the parameter, and classes and errors
// keep their types across the library boundary.
#include <jitstep/jitstep.h>
#include <torch/torch.h>

#include <iostream>

bool steps() {
  torch::Tensor weight = torch::ones(1000, torch::requires_grad());
  jitstep::AdamW opt({weight}, jitstep::AdamWOptions(0.5).weight_decay(0));
  weight.sum().backward();
  opt.step();
  const double mean = weight.mean().item<double>();
  std::cout << "after one step: " << mean << "\n";
  const auto& state = *opt.state().at(weight.unsafeGetTensorImpl());
  const auto* const ours = dynamic_cast<const jitstep::AdamWParamState*>(&state);
  return mean > 0.49 && mean < 0.51 && ours != nullptr && ours->exp_avg().numel() == 1000;
}

// The library must know an options class that the program makes.
bool groups_have_their_options() {
  const torch::Tensor a = torch::ones(3, torch::requires_grad());
  const torch::Tensor b = torch::ones(3, torch::requires_grad());
  jitstep::AdamW opt({a}, jitstep::AdamWOptions(0.5));
  opt.add_param_group({{b}, std::make_unique<jitstep::AdamWOptions>(0.25)});
  return opt.param_groups()[1].options().get_lr() == 0.25;
}

template <class Expected, class Action>
bool throws(const Action& action) {
  try {
    action();
  } catch (const Expected&) {
    return true;
  }
  return false;
}

int main() {
  const torch::Tensor p = torch::ones(3, torch::requires_grad());
  if (!steps()) return 1;
  if (!groups_have_their_options()) return 2;
  if (!throws<c10::Error>([&] { jitstep::AdamW({p}, jitstep::AdamWOptions(-1)); })) return 3;
  if (!throws<jitstep::Error>([] { jitstep::load_rule("nowhere.cuh"); })) return 4;
}
