#include <jitstep/grad_accumulator.h>

#include <cmath>
#include <limits>

#include "optim/optimizer/backward.h"

namespace jitstep::tests {
namespace {

GradAccumulatorOptions kept_as(torch::Dtype dtype, Rounding rounding = Rounding::nearest) {
  return GradAccumulatorOptions().dtype(dtype).rounding(rounding);
}

std::vector<std::int64_t> bits16(const torch::Tensor& tensor) {
  const torch::Tensor bits = tensor.contiguous().view(torch::kInt16).to(torch::kInt64);
  return {bits.const_data_ptr<std::int64_t>(), bits.const_data_ptr<std::int64_t>() + bits.numel()};
}

// The sums of three micro-batches of these shapes.
Tensors sums_of(const GradAccumulatorOptions& options,
                std::vector<std::vector<std::int64_t>> shapes,
                torch::Dtype dtype = torch::kFloat32) {
  const Tensors parameters = make_parameters(dtype, std::move(shapes));
  GradAccumulator sums(parameters, options);
  for (int batch = 0; batch < 3; ++batch) backward(parameters, random_gradients(parameters, batch));
  sums.assign_gradients();
  Tensors grads;
  for (const torch::Tensor& p : parameters) grads.push_back(p.grad());
  return grads;
}

TEST(GradAccumulatorBits, AddsInFloatAsTorchDoes) {
  const Tensors expected = make_parameters();
  for (int batch = 0; batch < 3; ++batch) backward(expected, random_gradients(expected, batch));
  const Tensors sums = sums_of(kept_as(torch::kFloat32), {{5, 3}, {3}, {}});
  for (std::size_t i = 0; i < sums.size(); ++i)
    EXPECT_TRUE(torch::equal(sums[i], expected[i].grad()));
}

TEST(GradAccumulatorBits, AddsToNearestInBfloat16AsTorchDoes) {
  const Tensors expected = make_parameters(torch::kBFloat16, {{1000, 3}, {3}, {}});
  for (int batch = 0; batch < 3; ++batch) backward(expected, random_gradients(expected, batch));
  const Tensors sums = sums_of(kept_as(torch::kBFloat16), {{1000, 3}, {3}, {}}, torch::kBFloat16);
  for (std::size_t i = 0; i < sums.size(); ++i)
    EXPECT_TRUE(torch::equal(sums[i], expected[i].grad()));
}

TEST(GradAccumulatorBits, KeepsSumsOfFloat64ParametersInFloat64) {
  const torch::Tensor p = leaf({2}, torch::kFloat64);
  GradAccumulator sums({p});
  backward(p, torch::full({2}, 1 + 0x1p-40, torch::kFloat64));
  sums.assign_gradients();
  EXPECT_EQ(p.grad().scalar_type(), torch::kFloat64);
  EXPECT_EQ(p.grad()[0].item<double>(), 1 + 0x1p-40);
}

// 1 + 2^-8 is half an ulp above 1. Rounding to nearest never adds anything.
TEST(GradAccumulatorBits, DoesNotStagnateWhereRoundingToNearestDoes) {
  for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic}) {
    const torch::Tensor p = leaf({4096});
    GradAccumulator sums({p}, kept_as(torch::kBFloat16, rounding));
    backward(p, torch::ones({4096}));
    for (int batch = 0; batch < 256; ++batch) backward(p, torch::full({4096}, 0x1p-8));
    sums.assign_gradients();
    const double mean = p.grad().to(torch::kFloat64).mean().item<double>();
    if (rounding == Rounding::nearest)
      EXPECT_EQ(mean, 1);
    else  // each of 256 roundings deviates by less than half an ulp: 2^-8 / sqrt(elements)
      EXPECT_NEAR(mean, 2, 5 * 16 * 0x1p-8 / 64);
  }
}

// Checks the mean over elements of values between 1 and 2, whose ulp is 2^-7. It must lie within five standard
// deviations. One is at most half an ulp over the square root of the number of elements.
TEST(GradAccumulatorBits, RoundsWithoutBias) {
  constexpr std::int64_t kCount = 1 << 18;
  for (const double value : {1.001, -1.003, 1.0078}) {
    const torch::Tensor p = leaf({kCount});
    GradAccumulator sums({p});
    backward(p, torch::full({kCount}, value));
    sums.assign_gradients();
    const double exact = static_cast<double>(static_cast<float>(value));
    EXPECT_NEAR(p.grad().to(torch::kFloat64).mean().item<double>(), exact,
                5 * 0x1p-8 / std::sqrt(double(kCount)));
    EXPECT_GT(p.grad().max().item<float>(),
              p.grad().min().item<float>());  // it rounds both up and down
  }
}

TEST(GradAccumulatorBits, GivesTheSameBitsForAnyNumberOfThreads) {
  const int threads = torch::get_num_threads();
  std::vector<std::vector<std::int64_t>> bits;
  for (const int count : {1, 2, 5}) {
    torch::set_num_threads(count);
    bits.push_back(bits16(sums_of({}, {{300, 1001}, {7}})[0]));
  }
  torch::set_num_threads(threads);
  EXPECT_EQ(bits[0], bits[1]);
  EXPECT_EQ(bits[0], bits[2]);
}

TEST(GradAccumulatorBits, DrawsItsBitsFromSeedParameterAndMicroBatch) {
  const auto sums = [](std::uint64_t seed) {
    return sums_of(GradAccumulatorOptions().seed(seed), {{4096}, {4096}});
  };
  EXPECT_EQ(bits16(sums(1)[0]), bits16(sums(1)[0]));
  EXPECT_NE(bits16(sums(1)[0]), bits16(sums(2)[0]));
  const Tensors parameters = {leaf({4096}), leaf({4096})};
  GradAccumulator accumulator(parameters);
  const Tensors gradients(2, torch::full({4096}, 1.001));
  std::vector<std::vector<std::int64_t>> windows;
  for (int window = 0; window < 2; ++window) {
    backward(parameters, gradients);
    accumulator.assign_gradients();
    EXPECT_NE(bits16(parameters[0].grad()), bits16(parameters[1].grad()));
    windows.push_back(bits16(parameters[0].grad()));
    for (const torch::Tensor& p : parameters) p.mutable_grad().reset();
  }
  EXPECT_NE(windows[0], windows[1]);  // otherwise every window would repeat the same errors
}

// Compares draws with equal seed, parameter id and step number.
TEST(GradAccumulatorBits, UsesOtherRandomBitsThanWeights) {
  const torch::Tensor p = leaf({4096}),
                      w = torch::zeros({4096}, torch::kBFloat16).set_requires_grad(true);
  GradAccumulator sums({p});
  backward(p, torch::full({4096}, 1.001));
  sums.assign_gradients();
  SGD sgd(Tensors{w}, SGDOptions(1).weights("stochastic"));
  w.mutable_grad() = torch::full({4096}, -1.001);
  sgd.step();
  EXPECT_EQ(w.max().item<float>(), p.grad().max().item<float>());
  EXPECT_NE(bits16(w.detach()), bits16(p.grad()));
}

TEST(GradAccumulatorBits, KeepsNonFiniteValues) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const Rounding rounding : {Rounding::stochastic, Rounding::nearest}) {
    const torch::Tensor p = leaf({4});
    GradAccumulator sums({p}, kept_as(torch::kBFloat16, rounding));
    for (int batch = 0; batch < 3; ++batch) backward(p, torch::tensor({kNaN, kInf, -kInf, 1.f}));
    sums.assign_gradients();
    EXPECT_TRUE(std::isnan(p.grad()[0].item<float>()));
    EXPECT_EQ(p.grad()[1].item<float>(), kInf);
    EXPECT_EQ(p.grad()[2].item<float>(), -kInf);
    EXPECT_EQ(p.grad()[3].item<float>(), 3);
  }
}

// A sum of -0 alone is -0, as it is without an accumulator.
TEST(GradAccumulatorBits, KeepsTheSignOfZero) {
  const torch::Tensor p = leaf({2});
  GradAccumulator sums({p});
  backward(p, torch::tensor({-0.f, 0.f}));
  EXPECT_EQ(sums.micro_batches(), 1);
  sums.assign_gradients();
  EXPECT_TRUE(p.grad().signbit()[0].item<bool>());
  EXPECT_FALSE(p.grad().signbit()[1].item<bool>());
}

}  // namespace
}  // namespace jitstep::tests
