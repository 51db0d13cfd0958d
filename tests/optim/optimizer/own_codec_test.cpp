// A user's codec, loaded at run time: the example with every kind of rule, and files that load_codec() rejects.
#include <sys/stat.h>

#include <thread>

#include "jitstep/jit/catalog.h"
#include "optim/training.h"

namespace jitstep::tests {
namespace {

template <class Act>
std::string problem(const Act& act) {
  try {
    act();
  } catch (const jit::Error& error) {
    return error.what();
  }
  return "no error";
}

// The example with another name.
std::string renamed(const std::string& name) {
  std::string text = text_of_file(JITSTEP_SOURCE_DIR "/examples/linear8.cuh");
  for (std::size_t at = 0; (at = text.find("linear8", at)) != text.npos; at += name.size())
    text.replace(at, 7, name);
  return text;
}

TEST(UserCodec, StoresTheStateOfEveryKindOfRule) {
  EXPECT_EQ(load_codec(example_file("linear8.cuh")), "linear8");
  for (const char* rule : {"sgd", "adamw", "lion", "adafactor", "came", "lamb", "novograd",
                           "prodigy", "madgrad", "schedulefree_adamw", "muon"}) {
    Tensors own = make_parameters(torch::kFloat32, {{64, 80}}), exact = clones(own);
    const auto before = own[0].detach().clone();
    Optimizer a(rule, own, GenericOptions(1e-3).state("linear8"));
    Optimizer b(rule, exact, GenericOptions(1e-3));
    train(a, own, 1, 5);
    train(b, exact, 1, 5);
    const double moved = (exact[0] - before).norm().item<double>();
    EXPECT_LT((own[0] - exact[0]).norm().item<double>(), 0.25 * moved) << rule;
    EXPECT_GT(moved, 0) << rule;
  }
}

// SGD's momentum, computed with torch by the formulas in the codec's file. All bits must agree.
TEST(UserCodec, FollowsItsFormulaToTheBit) {
  load_codec(example_file("linear8.cuh"));
  Tensors p = make_parameters(torch::kFloat32, {{64, 80}});
  auto expected = p[0].detach().clone(), stored = torch::zeros({40, 128});
  Optimizer opt("sgd", p, GenericOptions(0.1).set("momentum", 0.5).state("linear8"));
  for (int step = 1; step <= 4; ++step) {
    set_gradients(p, step);
    const auto g = p[0].grad().view({40, 128});
    const auto momentum =
        step == 1 ? g : stored * 0.5f + g;  // half is exact, so fused operations round alike
    expected = expected - momentum.view({64, 80}) * 0.1f;
    opt.step();
    EXPECT_TRUE(torch::allclose(p[0].detach(), expected, 0, 1e-6)) << step;
    const auto scale = momentum.abs().amax(1, true);
    const auto steps = (momentum.abs() * scale.reciprocal() * 127 + 0.5f).floor().clamp_max(127);
    stored = torch::sign(momentum) * steps / 127 * scale;
    expected = p[0].detach().clone();
  }
}

TEST(UserCodec, HasOptionsAndIsSavedAndLoaded) {
  load_codec(example_file("linear8.cuh"));
  const std::string spec =
      R"({"rule": "adamw", "state": {"m": {"codec": "linear8", "block": 64}, "v": "linear8"}})";
  Tensors whole = make_parameters(torch::kFloat32, {{64, 80}}), buffers = clones(whole);
  auto one = Optimizer::from_spec(whole, spec), first = Optimizer::from_spec(buffers, spec);
  train(*one, whole, 1, 6);
  train(*first, buffers, 1, 3);
  auto second = Optimizer::from_spec(buffers, spec);
  copy_through_archive(*first, *second);
  train(*second, buffers, 4, 6);
  expect_equal(whole, buffers);
  EXPECT_HAS(argument_error([&] {
               Optimizer::from_spec(
                   whole, R"({"rule": "adamw", "state": {"codec": "linear8", "block": 100}})");
             }),
             "block");
}

TEST(UserCodec, MayBeLoadedTwiceAndByManyThreads) {
  const std::string path = own_file("twice8.cuh", renamed("twice8"));
  std::vector<std::thread> threads;
  std::vector<std::string> names(16);
  for (auto& name : names) threads.emplace_back([&] { name = load_codec(path); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(names, std::vector<std::string>(16, "twice8"));
  EXPECT_EQ(load_codec(path), "twice8");
}

TEST(UserCodec, IsNeverReplacedByAnotherFileOfItsName) {
  const std::string path = own_file("changed8.cuh", renamed("changed8"));
  load_codec(path);
  std::filesystem::create_directories(std::filesystem::path(path).parent_path() / "elsewhere");
  const std::string other = own_file("elsewhere/changed8.cuh", renamed("changed8") + "// other\n");
  const std::string found = problem([&] { load_codec(other); });
  EXPECT_HAS(found, "cannot load the codec " + other);
  EXPECT_HAS(found, "another codec \"changed8\" exists (" + path + ")");
  const std::string shipped = own_file("int8.cuh", renamed("int8"));
  EXPECT_HAS(problem([&] { load_codec(shipped); }), "another codec \"int8\" exists");
}

TEST(UserCodec, MustBeAFileThatOnlyThisUserCanWrite) {
  EXPECT_HAS(problem([] { load_codec("/nowhere/at8.cuh"); }),
             "cannot load /nowhere/at8.cuh: No such file");
  EXPECT_HAS(problem([] { load_codec("/tmp"); }), "not a regular file");
  const std::string path = own_file("open8.cuh", renamed("open8"));
  ::chmod(path.c_str(), 0622);
  EXPECT_HAS(problem([&] { load_codec(path); }), "chmod go-w");
  ::chmod(path.c_str(), 0600);
  EXPECT_EQ(load_codec(path), "open8");
}

TEST(UserCodec, IsNotARuleAndARuleIsNotACodec) {
  const std::string rule = example_file("signum.cuh"), codec = example_file("linear8.cuh");
  EXPECT_HAS(problem([&] { load_codec(rule); }),
             rule + ":5: expected `namespace jitstep::codecs::signum {`");
  EXPECT_HAS(problem([&] { load_codec(rule); }), "This file is a rule. Call load_rule().");
  EXPECT_HAS(problem([&] { load_rule(codec); }), "This file is a codec. Call load_codec().");
  Tensors p = make_parameters();
  EXPECT_HAS(argument_error([&] { Optimizer("adamw", p, GenericOptions(0.1).state("adamw")); }),
             "there is no codec \"adamw\"");
}

TEST(UserCodec, WithAMistakeNamesTheLine) {
  const std::string path =
      own_file("odd8.cuh", renamed("odd8").replace(renamed("odd8").find("int block"), 3, "long"));
  EXPECT_HAS(problem([&] { load_codec(path); }), path + ":9: expected");
  std::string wrong = renamed("wrong8");
  wrong.replace(wrong.find("magnitude_key"), 9, "magnitood");
  load_codec(own_file("wrong8.cuh", wrong));
  Tensors p = make_parameters(torch::kFloat32, {{64, 80}});
  Optimizer opt("adamw", p, GenericOptions(0.1).state("wrong8"));
  const std::string found = problem([&] { train(opt, p, 1, 1); });
  EXPECT_HAS(found, "/wrong8.cuh:26");
}

}  // namespace
}  // namespace jitstep::tests
