// Copies of a state under another parameter: a residual belongs to the parameter value that it was stored for.
#include "optim/training.h"

namespace jitstep::tests {
namespace {

class CopiedWeights : public testing::TestWithParam<const char*> {
 protected:
  CopiedWeights() { train(optimizer_, p_, 1, 3), weights_ = optimizer_.fp32_weights()[0]; }

  const ParamState& state() {
    return static_cast<const ParamState&>(*optimizer_.state().at(p_[0].unsafeGetTensorImpl()));
  }
  static SGDOptions options(double lr) { return SGDOptions(lr).weights(GetParam()); }

  // The weights of another parameter, after the copy took a step there that moves nothing.
  static torch::Tensor weights_under(const torch::Tensor& q,
                                     std::unique_ptr<torch::optim::OptimizerParamState> copy) {
    SGD other(Tensors{q}, options(0));
    other.state()[q.unsafeGetTensorImpl()] = std::move(copy);
    q.mutable_grad() = torch::zeros_like(q);
    other.step();
    return other.fp32_weights()[0];
  }

  static torch::Tensor half_ulp(const torch::Tensor& p) {
    int exponent = 0;
    const torch::Tensor x = p.detach().to(torch::kFloat32).abs(), half = torch::empty_like(x);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      std::frexp(x.flatten()[i].item<float>(), &exponent);
      half.view(-1)[i] = std::ldexp(1.0f, exponent - 9);
    }
    return half;
  }

  Tensors p_ = make_parameters(torch::kBFloat16, {{20, 6}});
  SGD optimizer_{p_, options(0x1p-6)};
  torch::Tensor weights_;
};

TEST_P(CopiedWeights, StayIfTheParameterHasTheSameValues) {
  const torch::Tensor q = clones(p_)[0];
  expect_close({weights_under(q, state().clone())}, {weights_}, 0x1p-15, 0);
}

TEST_P(CopiedWeights, AreTheParameterIfItHasOtherRows) {
  const torch::Tensor q = p_[0].detach().flip(0).clone().requires_grad_();
  const torch::Tensor same = q.detach().eq(p_[0].detach()), shown = q.detach().to(torch::kFloat32);
  ASSERT_FALSE(same.all().item<bool>());
  const torch::Tensor now = weights_under(q, state().clone());
  EXPECT_TRUE(torch::equal(now.masked_select(~same), shown.masked_select(~same)));
  expect_equal(optimizer_.fp32_weights(),
               {weights_});  // the tensors that the copy shares did not change
}

TEST_P(CopiedWeights, StayForRowsWithTheSameValues) {
  const torch::Tensor q = clones(p_)[0];
  q.detach()[3].fill_(7);
  const torch::Tensor now = weights_under(q, state().clone());
  EXPECT_TRUE(now[3].eq(7).all().item<bool>());
  expect_close({now.slice(0, 4)}, {weights_.slice(0, 4)}, 0x1p-15, 0);
}

TEST_P(CopiedWeights, AreTheParameterIfTheStateMovesToOtherRows) {
  const torch::Tensor q = p_[0].detach().flip(0).clone().requires_grad_();
  const torch::Tensor shown = q.detach().to(torch::kFloat32);
  const torch::Tensor same = q.detach().eq(p_[0].detach());
  auto moved = std::move(optimizer_.state().at(p_[0].unsafeGetTensorImpl()));
  optimizer_.state().erase(p_[0].unsafeGetTensorImpl());
  const torch::Tensor now = weights_under(q, std::move(moved));
  EXPECT_TRUE(torch::equal(now.masked_select(~same), shown.masked_select(~same)));
}

// Nothing then tells which parameter the residual belongs to.
TEST_P(CopiedWeights, AreWithinHalfAnUlpIfTheStatesParameterIsGone) {
  const torch::Tensor q = p_[0].detach().flip(0).clone().requires_grad_();
  const torch::Tensor shown = q.detach().to(torch::kFloat32), half = half_ulp(q);
  auto copy = state().clone();
  optimizer_.state().clear();
  optimizer_.param_groups().clear();
  p_.clear();
  const torch::Tensor now = weights_under(q, std::move(copy));
  EXPECT_TRUE((now - shown).abs().le(half).all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(Formats, CopiedWeights,
                         testing::Values("master", "split16", "split8", "kahan"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace jitstep::tests
