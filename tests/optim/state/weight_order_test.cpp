// Parameters whose elements get another order in memory: the residual is reordered.
#include <sstream>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

using Weights = testing::TestWithParam<std::tuple<const char*, torch::Dtype>>;

class WeightOrder : public Weights {
 protected:
  static AdamW optimizer_of(const Tensors& parameters) {
    return AdamW(parameters, AdamWOptions(0.01).weights(std::get<0>(GetParam())));
  }
  static Tensors parameters() {
    return make_parameters(std::get<1>(GetParam()),
                           {{4, 3, 5, 6}, {70, 60}, {1, 8}, {0, 3}, {257}, {}});
  }
};

// Reverses the order of the dimensions in memory. Each dimension keeps its size.
torch::Tensor in_reverse(const torch::Tensor& p) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(p.dim()));
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = p.dim() - 1 - std::int64_t(d);
  return p.detach().permute(order).contiguous().permute(order);
}

torch::Tensor with_gaps(const torch::Tensor& p) {
  if (p.dim() == 0) return p.detach().clone();
  auto sizes = p.sizes().vec();
  sizes.back() *= 2;
  const torch::Tensor wide = torch::zeros(sizes, p.options().requires_grad(false));
  return wide.slice(-1, 0, sizes.back(), 2).copy_(p.detach());
}

// Steps with gradients that are the same for any order of the elements.
void train_alike(AdamW& optimizer, const Tensors& parameters, int first, int last) {
  for (int step = first; step <= last; ++step) {
    torch::manual_seed(step);
    for (const torch::Tensor& p : parameters)
      p.mutable_grad() = torch::empty_like(p.detach()).copy_(torch::randn(p.sizes()));
    optimizer.step();
  }
}

void reorder(const Tensors& parameters, torch::Tensor (*to)(const torch::Tensor&)) {
  for (const torch::Tensor& p : parameters) p.set_data(to(p));
}

torch::Tensor channels_last(const torch::Tensor& p) {
  return p.dim() == 4 ? p.detach().contiguous(torch::MemoryFormat::ChannelsLast) : in_reverse(p);
}

TEST_P(WeightOrder, MayChangeInTraining) {
  const Tensors changing = parameters(), staying = clones(changing);
  AdamW optimizer = optimizer_of(changing), other = optimizer_of(staying);
  int step = 1;
  for (const auto to : {&in_reverse, &with_gaps, &channels_last, &in_reverse}) {
    train_alike(optimizer, changing, step, step + 1);
    train_alike(other, staying, step, step + 1);
    step += 2;
    reorder(changing, to);
    expect_equal(optimizer.fp32_weights(), other.fp32_weights());
  }
  train_alike(optimizer, changing, step, step);
  train_alike(other, staying, step, step);
  expect_equal(optimizer.fp32_weights(), other.fp32_weights());
  expect_equal(changing, staying);
}

TEST_P(WeightOrder, OfAModelMayDifferFromThatOfItsArchive) {
  const Tensors saved = parameters(), loaded = clones(saved);
  AdamW from = optimizer_of(saved);
  train_alike(from, saved, 1, 3);
  for (std::size_t i = 0; i < saved.size(); ++i)
    loaded[i].set_data(channels_last(saved[i]).clone());
  AdamW to = optimizer_of(loaded);
  copy_through_archive(from, to);
  expect_equal(to.fp32_weights(), from.fp32_weights());
  train_alike(from, saved, 4, 5);
  train_alike(to, loaded, 4, 5);
  expect_equal(to.fp32_weights(), from.fp32_weights());
  expect_equal(loaded, saved);
}

INSTANTIATE_TEST_SUITE_P(
    Formats, WeightOrder,
    testing::Values(std::tuple{"master", torch::kBFloat16}, std::tuple{"split16", torch::kBFloat16},
                    std::tuple{"split8", torch::kBFloat16}, std::tuple{"kahan", torch::kBFloat16},
                    std::tuple{"master", torch::kFloat16}, std::tuple{"split8", torch::kFloat16}),
    [](const auto& test) {
      const bool half = std::get<1>(test.param) == torch::kFloat16;
      return std::string(std::get<0>(test.param)) + (half ? "_float16" : "_bfloat16");
    });

// Order and format change together.
TEST(WeightOrders, MayChangeTogetherWithTheWeightFormat) {
  const Tensors parameters = make_parameters(torch::kBFloat16, {{70, 60}, {4, 3, 5, 6}});
  AdamW optimizer(parameters, AdamWOptions(0.01).weights("master"));
  train(optimizer, parameters, 1, 3);
  const Tensors before = optimizer.fp32_weights();
  reorder(parameters, &channels_last);
  auto& options = static_cast<AdamWOptions&>(optimizer.param_groups()[0].options());
  options.weights("split16").lr(0).weight_decay(0);
  train(optimizer, parameters, 4, 4);
  expect_equal(optimizer.fp32_weights(), before);
}

// The residual then belongs to the elements of another tensor.
TEST(WeightOrders, OfAnotherShapeStartFromTheParameterAlone) {
  const torch::Tensor p = torch::ones({6, 4}, torch::kBFloat16).requires_grad_();
  SGD optimizer(Tensors{p}, SGDOptions(1).weights("split16"));
  p.mutable_grad() = torch::full({6, 4}, -0x1p-9, torch::kBFloat16);
  optimizer.step();
  EXPECT_EQ(optimizer.fp32_weights()[0][5][3].item<float>(), 1 + 0x1p-9f);
  p.set_data(torch::full({4, 6}, 2.0, torch::kBFloat16));
  EXPECT_EQ(optimizer.fp32_weights()[0].max().item<float>(), 2);
  p.mutable_grad() = torch::zeros({4, 6}, torch::kBFloat16);
  optimizer.step();
  EXPECT_EQ(optimizer.fp32_weights()[0].max().item<float>(), 2);
}

TEST(WeightOrders, WithoutAResidualAreThoseOfTheParameter) {
  const torch::Tensor p = torch::ones({6, 5}).to(torch::kBFloat16).requires_grad_();
  AdamW optimizer(Tensors{p}, AdamWOptions(0.1));
  p.mutable_grad() = torch::ones_like(p);
  optimizer.step();
  const auto& state =
      static_cast<const AdamWParamState&>(*optimizer.state().at(p.unsafeGetTensorImpl()));
  EXPECT_TRUE(torch::equal(state.weights(), p.detach().to(torch::kFloat)));
}

TEST(WeightOrders, RejectAResidualWithTheWrongNumberOfBytes) {
  const Tensors parameters = make_parameters(torch::kBFloat16, {{6, 5}});
  AdamW optimizer(parameters, AdamWOptions(0.01).weights("split16"));
  train(optimizer, parameters, 1, 2);
  auto& state = static_cast<ParamState&>(*optimizer.state().begin()->second);
  state.residual().set_data(torch::zeros({59}, torch::kUInt8));
  const Tensors before = clones(parameters);
  set_gradients(parameters, 3);
  const std::string error = argument_error([&] { optimizer.step(); });
  EXPECT_HAS(error, "split16");
  EXPECT_HAS(error, "60 bytes");
  EXPECT_HAS(argument_error([&] { optimizer.fp32_weights(); }), "60 bytes");
  expect_equal(parameters, before);
}

}  // namespace
}  // namespace jitstep::tests
