// A tensor of more than 2^31 elements with all its state, about 14 GB. tests/templates has larger ones without real
// storage.
#include <fstream>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

constexpr std::int64_t kElements = (std::int64_t{1} << 31) + 1;
constexpr std::int64_t kTail =
    4097;  // the last elements, with whole codec blocks before the last block

std::int64_t available_gigabytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word && word != "MemAvailable:") {
  }
  std::int64_t kilobytes = 0;
  file >> kilobytes;
  return kilobytes >> 20;
}

void set_tail_gradient(const torch::Tensor& g, int step) {
  torch::manual_seed(1000 + step);
  g.slice(0, g.numel() - kTail).copy_(torch::randn({kTail}));
}

TEST(LargeTensor, WithMoreThan2To31ElementsIsSteppedToItsEnd) {
  if (available_gigabytes() < 18) GTEST_SKIP() << "needs 18 GB of free memory";
  const auto large = torch::ones({kElements}, torch::kBFloat16).requires_grad_();
  const auto small = torch::ones({kTail}, torch::kBFloat16).requires_grad_();
  large.mutable_grad() = torch::zeros({kElements}, torch::kBFloat16);
  small.mutable_grad() = torch::zeros({kTail}, torch::kBFloat16);
  const auto options = AdamWOptions(0.1).weight_decay(0.5).state("int8");
  AdamW one({large}, options), other({small}, options);
  for (int step = 1; step <= 2; ++step) {
    set_tail_gradient(large.grad(), step);
    set_tail_gradient(small.grad(), step);
    one.step();
    other.step();
  }
  const auto values = large.detach();
  EXPECT_TRUE(torch::equal(values.slice(0, kElements - kTail), small.detach()));
  EXPECT_FALSE(torch::equal(small.detach().slice(0, 0, 100), small.detach().slice(0, 100, 200)));
  // All other elements decayed twice. None was skipped or stepped twice.
  const auto rest = values.slice(0, 0, kElements - kTail);
  const auto first = rest[0].item<float>();
  EXPECT_NEAR(first, 0.95 * 0.95, 0.005);
  EXPECT_EQ(rest.min().item<float>(), first);
  EXPECT_EQ(rest.max().item<float>(), first);
}

}  // namespace
}  // namespace jitstep::tests
