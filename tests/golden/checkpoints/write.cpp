// Writes the checkpoints of cases.h, and the parameters that belong to them, into the current folder. See README.md.
#include <torch/serialize.h>

#include "cases.h"

int main() {
  for (const auto& one : jitstep::tests::kCheckpointCases) {
    const auto parameters = jitstep::tests::checkpoint_parameters(one);
    const auto optimizer = jitstep::tests::checkpoint_optimizer(one, parameters, true);
    std::vector<torch::Tensor> recorded;
    const auto record = [&] {
      for (const auto& p : parameters) recorded.push_back(p.detach().clone());
    };
    jitstep::tests::step_checkpoint(*optimizer, parameters, 1, 3);
    if (one.eval) optimizer->eval();
    optimizer->save(std::string(one.name) + ".pt");
    record();
    if (one.eval) optimizer->train();
    jitstep::tests::step_checkpoint(*optimizer, parameters, 4, 5);
    record();
    torch::save(recorded, std::string(one.name) + ".parameters.pt");
  }
}
