// Data parallelism with torch's c10d::Reducer, whose all-reduces overlap backward(). jitstep replaces them by a mean
// that has the same bits on every back end:
//
//   torchrun --no-python --nproc-per-node 4 build/examples/data_parallel
//
// The Reducer is the part of DistributedDataParallel that is written in C++. Its interface is that of torch 2.13.
#include <jitstep/jitstep.h>
#include <jitstep/sharding.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <csignal>
#include <iostream>
#include <memory>
#include <vector>

#include "ranks/process_group.h"

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 13
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

// [docs:reducer-hook]
class OrderedHook : public c10d::CommHookInterface {
 public:
  explicit OrderedHook(const Group& group) : reduce_(group) {}
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    return reduce_.start(bucket.getBuffer(), bucket.isLast());
  }
  torch::Tensor parseHookResult(const c10::IValue& mean) override { return mean.toTensor(); }

 private:
  jitstep::OrderedAllReduce reduce_;
};
// [docs:reducer-hook end]

// What the constructor of DistributedDataParallel does. Buckets are filled in reverse order.
std::shared_ptr<c10d::Reducer> make_reducer(const std::vector<torch::Tensor>& parameters,
                                            const Group& group) {
  constexpr std::size_t kFirst = 64 << 10, kOthers = 4 << 20;  // bytes of a bucket
  const std::vector<torch::Tensor> reversed(parameters.rbegin(), parameters.rend());
  auto buckets =
      std::get<0>(c10d::compute_bucket_assignment_by_size(reversed, {kFirst, kOthers}, {}, {}, {}));
  for (auto& bucket : buckets)
    for (auto& index : bucket) index = parameters.size() - 1 - index;
  const bool find_unused = false, views_of_buckets = true;
  auto reducer = std::make_shared<c10d::Reducer>(
      parameters, buckets, group, std::vector<bool>(parameters.size(), false), kOthers, find_unused,
      views_of_buckets, std::unordered_map<std::size_t, std::string>{}, kFirst,
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      std::vector<std::int64_t>{});
  auto logger = std::make_shared<c10d::Logger>(reducer);
  logger->set_construction_data_and_log("model", {}, -1, false, false, false);
  reducer->set_logger(logger);
  return reducer;
}

}  // namespace

int main() {
  std::signal(SIGPIPE, SIG_IGN);  // as Python: gloo throws if another rank has ended
  const auto group = init_process_group();
  torch::manual_seed(1);  // the same weights on all ranks
  torch::nn::Sequential model(torch::nn::Linear(1, 512), torch::nn::Tanh(),
                              torch::nn::Linear(512, 512), torch::nn::Tanh(),
                              torch::nn::Linear(512, 1));
  const auto parameters = model->parameters();
  const auto reducer = make_reducer(parameters, group);
  reducer->register_comm_hook(std::make_unique<OrderedHook>(group));
  jitstep::AdamW opt(parameters, jitstep::AdamWOptions(1e-3).state("int8"));
  torch::manual_seed(100 + group->getRank());  // other samples on each rank
  for (int step = 1; step <= 60; ++step) {
    const auto x = torch::rand({64, 1}) * 6 - 3;
    // [docs:reducer-step]
    for (const torch::Tensor& p : parameters) p.mutable_grad().reset();
    reducer->prepare_for_forward();
    if (reducer->should_rebuild_buckets()) reducer->rebuild_buckets();
    const auto y = model->forward(x);
    reducer->prepare_for_backward({});
    auto loss = torch::mse_loss(y, torch::sin(x));
    loss.backward();
    opt.step();
    // [docs:reducer-step end]
    if (step % 20 == 0 && group->getRank() == 0)
      std::cout << "step " << step << ": loss " << loss.item<float>() << "\n";
  }
}
#else
int main() { std::cout << "This program needs torch 2.13.\n"; }
#endif
