// Measures the memory of gradients while a network is trained on the CPU: the peak of allocations during an iteration,
// minus the allocations before it. Compares ordinary steps, step_in_backward(), and sums of micro-batches.
#include <c10/core/CPUAllocator.h>
#include <torch/nn.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "jitstep/jitstep.h"

namespace jitstep::bench {
namespace {

// Counts torch's allocations on the CPU.
class LiveBytes : public c10::Allocator {
 public:
  // Never destroyed, because torch may free memory until the process ends.
  static LiveBytes& get() {
    static LiveBytes& only = *new LiveBytes;
    return only;
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr memory = whole_->allocate(bytes);
    void* const data = memory.get();
    if (data == nullptr) return memory;
    const std::lock_guard lock(mutex_);
    sizes_[data] = {static_cast<std::int64_t>(bytes), memory.get_deleter(), memory.get_context()};
    live_ += static_cast<std::int64_t>(bytes);
    most_ = std::max(most_, live_);
    memory.release_context();
    return {data, data, &release, memory.device()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    whole_->copy_data(to, from, bytes);
  }

  // The peak during `action`, minus the bytes before it.
  std::int64_t most_in(const std::function<void()>& action) {
    const std::int64_t before = most_ = live_;
    action();
    return most_ - before;
  }

 private:
  LiveBytes() : whole_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, 1); }

  struct Block {
    std::int64_t bytes;
    c10::DeleterFnPtr deleter;
    void* context;
  };

  static void release(void* data) {
    LiveBytes& all = get();
    Block block;
    {
      const std::lock_guard lock(all.mutex_);
      const auto found = all.sizes_.find(data);
      block = found->second;
      all.sizes_.erase(found);
      all.live_ -= block.bytes;
    }
    block.deleter(block.context);
  }

  c10::Allocator* whole_;
  std::mutex mutex_;
  std::unordered_map<void*, Block> sizes_;
  std::int64_t live_ = 0, most_ = 0;
};

torch::nn::Sequential network(int layers, int width, torch::Dtype dtype) {
  torch::nn::Sequential model;
  for (int i = 0; i < layers; ++i) {
    model->push_back(torch::nn::Linear(width, width));
    model->push_back(torch::nn::ReLU());
  }
  model->to(dtype);
  return model;
}

struct Size {
  int layers = 24, width = 1024, micro_batches = 4;
  bool bfloat16 = false;
};

// One way to train.
struct Way {
  const char* name;
  int micro_batches;
  bool in_backward;
  std::optional<GradAccumulatorOptions> sums = {};
};

void measure(const Size& size, const Way& way) {
  LiveBytes& memory = LiveBytes::get();
  torch::manual_seed(1);
  const auto dtype = size.bfloat16 ? torch::kBFloat16 : torch::kFloat32;
  auto model = network(size.layers, size.width, dtype);
  std::int64_t parameters = 0;
  for (const auto& p : model->parameters()) parameters += p.numel();
  AdamW opt(model->parameters(), AdamWOptions(1e-3));
  opt.step_in_backward(way.in_backward);
  std::optional<GradAccumulator> sums;
  if (way.sums) sums.emplace(model->parameters(), *way.sums);
  const auto x = torch::randn({1, size.width}, dtype);
  const auto iteration = [&] {
    for (int i = 0; i < way.micro_batches; ++i) model->forward(x).square().mean().backward();
    if (sums) sums->assign_gradients();
    opt.step();
    opt.zero_grad();
  };
  iteration();                                             // creates the optimizer state
  if (sums) sums.emplace(model->parameters(), *way.sums);  // so that its buffers are counted
  const auto most = static_cast<double>(memory.most_in(iteration));
  std::printf("| %-58s | %8.1f | %5.2f |\n", way.name, most / 0x1p20,
              most / static_cast<double>(parameters));
}

void run(const Size& size) {
  const int n = size.micro_batches;
  const GradAccumulatorOptions sums;
  std::printf("| | MiB | bytes/parameter |\n|---|---|---|\n");
  measure(size, {"step()", 1, false});
  measure(size, {"step_in_backward()", 1, true});
  measure(size, {"micro-batches, torch's sum", n, false});
  measure(size, {"micro-batches, GradAccumulator", n, false, sums});
  measure(size, {"micro-batches, GradAccumulator, max_waiting_bytes(0)", n, false,
                 GradAccumulatorOptions(sums).max_waiting_bytes(0)});
}

}  // namespace
}  // namespace jitstep::bench

int main(int count, char** arguments) {
  CLI::App app("Peak memory of an AdamW iteration in addition to parameters and state");
  jitstep::bench::Size size;
  const auto positive = CLI::Range(1, 1 << 30);
  app.add_option("--layers", size.layers, "Number of linear layers, each followed by a ReLU")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--width", size.width, "Width of each layer")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--micro-batches", size.micro_batches, "Number of micro-batches in a sum")
      ->check(positive)
      ->capture_default_str();
  app.add_flag("--bfloat16", size.bfloat16, "Parameters and gradients in bfloat16");
  CLI11_PARSE(app, count, arguments);
  jitstep::bench::run(size);
}
