// 32 optimizers step at the same time, each in its own thread.
#include <latch>
#include <mutex>
#include <thread>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

constexpr int kThreads = 32, kSteps = 4;

// Every rule and every codec. Neighbors share kernels. The ninth has another one's rule, and a norm over all of its
// parameters.
const std::vector<std::string>& specs() {
  static const std::vector<std::string> specs = {
      R"({"rule": "adamw"})",
      R"({"rule": "adamw", "state": "int8"})",
      R"({"rule": "adam", "state": "int4", "options": {"amsgrad": true}})",
      R"({"rule": "lamb", "state": "bf16"})",
      R"({"rule": "lamb", "state": {"m": "int4", "v": "int8"}})",
      R"({"rule": "sgd", "options": {"momentum": 0.9}, "state": "int8"})",
      R"({"rule": "sgd"})",
      R"({"rule": "signum", "state": "linear8"})",
      R"({"rule": "adamw", "state": "int8", "options": {"max_grad_norm": 0.5}})",
  };
  return specs;
}

// The work of one thread. It is made beforehand, because all threads share torch's random generator.
struct Task {
  std::string spec, internal_rule, own_codec;
  Tensors parameters;
  std::vector<Tensors> gradients;  // [step]
};

Task task(int thread) {
  torch::manual_seed(thread);
  Task made{specs()[static_cast<std::size_t>(thread) % specs().size()],
            example_file("signum.cuh"),
            example_file("linear8.cuh"),
            {},
            {}};
  const std::vector<std::vector<std::int64_t>> shapes = {{100, 90}, {257}, {}, {12, 7, 5}};
  for (const auto& shape : shapes) made.parameters.push_back(torch::randn(shape));
  for (int step = 0; step < kSteps; ++step) {
    made.gradients.emplace_back();
    for (const auto& shape : shapes) made.gradients.back().push_back(torch::randn(shape));
  }
  return made;
}

// One archive at a time. torch's archives share a registry of names and types. ThreadSanitizer sees only parts of
// libtorch, so it cannot tell whether a lock guards the registry. Other threads step meanwhile.
void save_and_load(const Optimizer& from, Optimizer& to) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  copy_through_archive(from, to);
}

// The parameters after some steps. After half of them the state is saved and loaded.
Tensors run(const Task& task) {
  load_rule(task.internal_rule);
  load_codec(task.own_codec);
  Tensors parameters;
  for (const auto& p : task.parameters) parameters.push_back(p.clone().set_requires_grad(true));
  auto optimizer = Optimizer::from_spec(parameters, task.spec);
  for (int step = 0; step < kSteps; ++step) {
    if (step == kSteps / 2) {
      auto next = Optimizer::from_spec(parameters, task.spec);
      save_and_load(*optimizer, *next);
      optimizer = std::move(next);
    }
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i].mutable_grad() = task.gradients[step][i].clone();
    optimizer->step();
  }
  return parameters;
}

std::vector<Tensors> at_once(const std::vector<Task>& tasks) {
  std::vector<Tensors> results(tasks.size());
  std::vector<std::thread> threads;
  std::latch start(static_cast<std::ptrdiff_t>(tasks.size()));
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      results[i] = run(tasks[i]);
    });
  }
  for (auto& thread : threads) thread.join();
  return results;
}

// The threads come first: they find no kernel in this process.
TEST(Threads, ThirtyTwoConcurrentOptimizersGiveTheBitsOfOneAlone) {
  std::vector<Task> tasks;
  for (int i = 0; i < kThreads; ++i) tasks.push_back(task(i));
  const auto first = at_once(tasks), again = at_once(tasks);
  for (int i = 0; i < kThreads; ++i) {
    SCOPED_TRACE(tasks[i].spec);
    const Tensors alone = run(tasks[i]);
    expect_equal(alone, first[i]);
    expect_equal(alone, again[i]);
    EXPECT_FALSE(torch::equal(alone[0], tasks[i].parameters[0]));
  }
}

}  // namespace
}  // namespace jitstep::tests
