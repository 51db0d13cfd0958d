// Several processes that train one model, and share the state of its optimizer:
//
//   torchrun --no-python --nproc-per-node 4 build/examples/sharded
//
// torchrun sets the environment variables. Each process computes the gradients of its own samples.
#include <jitstep/jitstep.h>
#include <jitstep/sharding.h>
#include <torch/torch.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

// [docs:group]
// As torch.distributed.init_process_group("gloo") in Python.
c10::intrusive_ptr<c10d::ProcessGroup> init_process_group() {
  const int rank = std::stoi(variable("RANK", "0")), size = std::stoi(variable("WORLD_SIZE", "1"));
  c10d::TCPStoreOptions where;
  where.port = static_cast<std::uint16_t>(std::stoi(variable("MASTER_PORT", "29500")));
  // Under torchrun the store of the launcher exists already.
  where.isServer = rank == 0 && variable("TORCHELASTIC_USE_AGENT_STORE", "") != "True";
  where.numWorkers = size;
  const auto store =
      c10::make_intrusive<c10d::TCPStore>(variable("MASTER_ADDR", "127.0.0.1"), where);
  auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::seconds(60));
  options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
  const auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  return group;
}
// [docs:group end]

}  // namespace

int main() {
  std::signal(SIGPIPE, SIG_IGN);  // as Python: gloo throws if another rank has ended
  const auto group = init_process_group();
  torch::manual_seed(1);  // the same weights on all ranks
  torch::nn::Sequential model(torch::nn::Linear(1, 512), torch::nn::Tanh(),
                              torch::nn::Linear(512, 512), torch::nn::Tanh(),
                              torch::nn::Linear(512, 1));
  // [docs:shard]
  jitstep::AdamW opt(model->parameters(),
                     jitstep::AdamWOptions(1e-3).state("int8").max_grad_norm(1.0));
  opt.shard(group);
  // [docs:shard end]
  torch::manual_seed(100 + group->getRank());  // other samples on each rank
  for (int step = 1; step <= 100; ++step) {
    const auto x = torch::rand({64, 1}) * 6 - 3;
    // [docs:shard-step]
    opt.zero_grad();
    auto loss = torch::mse_loss(model->forward(x), torch::sin(x));
    loss.backward();
    jitstep::average_gradients(model->parameters(), group);
    opt.step();
    // [docs:shard-step end]
    if (step % 20 == 0 && group->getRank() == 0)
      std::cout << "step " << step << ": loss " << loss.item<float>() << ", state of this rank "
                << opt.memory_report().state_bytes() << " bytes\n";
  }
}
