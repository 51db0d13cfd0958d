// Several processes that train one model, and share the state of its optimizer, then also the gradients:
//
//   torchrun --no-python --nproc-per-node 4 build/examples/sharded
//
// Each process computes the gradients of its own samples.
#include <jitstep/jitstep.h>
#include <jitstep/sharding.h>
#include <torch/torch.h>

#include <csignal>
#include <iostream>

#include "ranks/process_group.h"

namespace {

constexpr int kSteps = 60;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

torch::nn::Sequential make_model() {
  torch::manual_seed(1);  // the same weights on all ranks
  return torch::nn::Sequential(torch::nn::Linear(1, 512), torch::nn::Tanh(),
                               torch::nn::Linear(512, 512), torch::nn::Tanh(),
                               torch::nn::Linear(512, 1));
}

torch::Tensor samples() { return torch::rand({64, 1}) * 6 - 3; }

void report(const Group& group, int step, const torch::Tensor& loss, jitstep::Optimizer& opt) {
  if (step % 20 == 0 && group->getRank() == 0)
    std::cout << "step " << step << ": loss " << loss.item<float>() << ", state of this rank "
              << opt.memory_report().state_bytes() << " bytes\n";
}

void share_state(const Group& group) {
  auto model = make_model();
  // [docs:shard]
  jitstep::AdamW opt(model->parameters(),
                     jitstep::AdamWOptions(1e-3).state("int8").max_grad_norm(1.0));
  opt.shard(group);
  // [docs:shard end]
  torch::manual_seed(100 + group->getRank());  // other samples on each rank
  for (int step = 1; step <= kSteps; ++step) {
    const auto x = samples();
    // [docs:shard-step]
    opt.zero_grad();
    auto loss = torch::mse_loss(model->forward(x), torch::sin(x));
    loss.backward();
    jitstep::average_gradients(model->parameters(), group);
    opt.step();
    // [docs:shard-step end]
    report(group, step, loss, opt);
  }
}

void share_gradients(const Group& group) {
  auto model = make_model();
  jitstep::AdamW opt(model->parameters(),
                     jitstep::AdamWOptions(1e-3).state("int8").max_grad_norm(1.0));
  // [docs:shard-gradients]
  opt.shard(group, jitstep::ShardOptions()
                       .gradients(jitstep::ShardOptions::Gradients::own)
                       .in_backward(true)
                       .micro_batches(2));
  // [docs:shard-gradients end]
  torch::manual_seed(100 + group->getRank());
  for (int step = 1; step <= kSteps; ++step) {
    torch::Tensor loss;
    // [docs:shard-gradients-step]
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      const auto x = samples();
      loss = torch::mse_loss(model->forward(x), torch::sin(x));
      loss.backward();  // frees the gradients
    }
    opt.step();
    // [docs:shard-gradients-step end]
    report(group, step, loss, opt);
  }
}

}  // namespace

int main() {
  std::signal(SIGPIPE, SIG_IGN);  // as Python: gloo throws if another rank has ended
  const auto group = init_process_group();
  share_state(group);
  share_gradients(group);
}
