// A user's own rule, loaded at run time: the README's example, on every codec.
#include <gtest/gtest.h>
#include <jitstep/jitstep.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "jitstep/jit/catalog.h"

namespace jitstep {
namespace {

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The example in a temporary folder, as a user's file is.
std::string signum_file() {
  const auto folder = std::filesystem::temp_directory_path() / "jitstep_own_rule_test";
  std::filesystem::create_directories(folder);
  const auto file = folder / "signum.cuh";
  std::ofstream(file) << read(JITSTEP_SOURCE_DIR "/examples/signum.cuh");
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  return file;
}

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
  EXPECT_EQ(load_rule(signum_file()), "signum");
  for (const auto& codec : jit::default_catalog().names(jit::Manifest::Kind::codec)) {
    torch::manual_seed(3);
    torch::nn::Sequential model(torch::nn::Linear(64, 128), torch::nn::Tanh(),
                                torch::nn::Linear(128, 1));
    Optimizer opt("signum", model->parameters(), GenericOptions(2e-3).state(codec));
    EXPECT_LT(train(opt, model), 0.1) << codec;
  }
}

TEST(OwnRule, FollowsItsFormulaToTheBit) {
  load_rule(signum_file());
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
  EXPECT_NE(
      read(JITSTEP_SOURCE_DIR "/README.md").find(read(JITSTEP_SOURCE_DIR "/examples/signum.cuh")),
      std::string::npos);
}

TEST(OwnRule, WithAMistakeSaysWhereAndShowsTheSource) {
  const auto folder = std::filesystem::temp_directory_path() / "jitstep_own_rule_test";
  std::filesystem::create_directories(folder);
  std::string text = read(JITSTEP_SOURCE_DIR "/examples/signum.cuh");
  while (text.find("signum") != std::string::npos) text.replace(text.find("signum"), 6, "broken");
  text.replace(text.find("sign(e.m.next)"), 14, "sing(e.m.next)");
  const std::string path = folder / "broken.cuh";
  std::ofstream(path) << text;
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  load_rule(path);
  auto p = torch::ones({4}).requires_grad_();
  p.mutable_grad() = torch::ones({4});
  Optimizer opt("broken", {p}, GenericOptions(0.1));
  try {
    opt.step();
    FAIL() << "a rule that does not compile was run";
  } catch (const jit::CompileError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("rules/broken.cuh:31"), std::string::npos) << what;
    EXPECT_NE(what.find("sing"), std::string::npos) << what;
  }
  EXPECT_TRUE(torch::equal(p.detach(), torch::ones({4})));
}

}  // namespace
}  // namespace jitstep
