// A user's own rule, loaded at run time: the README's example, on every codec.
#include "optim/training.h"

namespace jitstep::tests {
namespace {

// Mean loss of the last steps of a small regression, which plain guessing leaves at about 1.
double train(Optimizer& opt, torch::nn::Sequential& model) {
  const auto x = torch::randn({256, 64});
  const auto y = torch::tanh(x.matmul(torch::randn({64, 1}) / 8));
  double last = 0;
  for (int step = 0; step < 150; ++step) {
    opt.zero_grad();
    auto loss = torch::mse_loss(model->forward(x), y) / y.var();
    loss.backward();
    opt.step();
    last = loss.item<double>();
  }
  return last;
}

TEST(OwnRule, TrainsOnEveryCodec) {
  EXPECT_EQ(load_rule(example_file("signum.cuh")), "signum");
  for (const auto& codec : shipped(jit::Manifest::Kind::codec)) {
    torch::manual_seed(3);
    torch::nn::Sequential model(torch::nn::Linear(64, 128), torch::nn::Tanh(),
                                torch::nn::Linear(128, 1));
    Optimizer opt("signum", model->parameters(), GenericOptions(2e-3).state(codec));
    EXPECT_LT(train(opt, model), 0.1) << codec;
  }
}

TEST(OwnRule, FollowsItsFormulaToTheBit) {
  load_rule(example_file("signum.cuh"));
  auto p = torch::randn({1000}).requires_grad_();
  auto expected = p.detach().clone(), m = torch::zeros({1000});
  Optimizer opt("signum", {p}, GenericOptions(0.1).set("weight_decay", 0.5));
  for (int step = 0; step < 3; ++step) {
    p.mutable_grad() = torch::randn({1000});
    m = (m.to(torch::kFloat64) * float(0.9) + (p.grad() * float(1 - 0.9)).to(torch::kFloat64))
            .to(torch::kFloat32);
    expected = expected * float(1 - 0.1 * 0.5) - torch::sign(m) * float(0.1);
    opt.step();
    EXPECT_TRUE(torch::equal(p.detach(), expected));
  }
}

TEST(OwnRule, IsTheOneTheReadmeShows) {
  EXPECT_NE(text_of_file(JITSTEP_SOURCE_DIR "/README.md")
                .find(text_of_file(JITSTEP_SOURCE_DIR "/examples/signum.cuh")),
            std::string::npos);
}

TEST(OwnRule, WithAMistakeSaysWhereAndShowsTheSource) {
  std::string text = text_of_file(JITSTEP_SOURCE_DIR "/examples/signum.cuh");
  while (text.find("signum") != std::string::npos) text.replace(text.find("signum"), 6, "broken");
  text.replace(text.find("sign(e.m.next)"), 14, "sing(e.m.next)");
  load_rule(own_file("broken.cuh", text));
  auto p = torch::ones({4}).requires_grad_();
  p.mutable_grad() = torch::ones({4});
  Optimizer opt("broken", {p}, GenericOptions(0.1));
  try {
    opt.step();
    FAIL() << "a rule that does not compile was run";
  } catch (const jit::CompileError& error) {
    const std::string what = error.what();
    EXPECT_HAS(what, "rules/broken.cuh:31");
    EXPECT_HAS(what, "sing");
  }
  EXPECT_TRUE(torch::equal(p.detach(), torch::ones({4})));
}

}  // namespace
}  // namespace jitstep::tests
