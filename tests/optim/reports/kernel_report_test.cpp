// kernels(): the kernels that an optimizer's steps run, and the parameters that use them.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

using Indices = std::set<std::pair<std::size_t, std::size_t>>;

Indices indices_of(const KernelReport& kernel) {
  Indices indices;
  for (const auto& [group, index] : kernel.parameters) indices.emplace(group, index);
  EXPECT_EQ(indices.size(), kernel.parameters.size()) << "each once";
  return indices;
}

// Two float32 parameters and one of bfloat16.
struct TwoDtypes {
  Tensors floats = make_parameters(torch::kFloat32, {{5, 3}, {3}});
  Tensors buffers = make_parameters(torch::kBFloat16, {{4, 4}});
  Tensors all = {floats[0], buffers[0], floats[1]};
  AdamW optimizer{all, AdamWOptions(1e-3)};
};

TEST(KernelReport, NamesEachKernelOfAStepWithTheParametersThatShareIt) {
  TwoDtypes two;
  train(two.optimizer, two.all, 1, 1);
  const std::vector<KernelReport> kernels = two.optimizer.kernels();
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].name(), "adamw_fp32_float32");
  EXPECT_EQ(indices_of(kernels[0]), (Indices{{0, 0}, {0, 2}}));
  EXPECT_EQ(kernels[1].name(), "adamw_fp32_bfloat16");
  EXPECT_EQ(indices_of(kernels[1]), (Indices{{0, 1}}));
}

TEST(KernelReport, HasSourcesBinaryAndConfigOfTheKernel) {
  TwoDtypes two;
  train(two.optimizer, two.all, 1, 1);
  const KernelReport kernel = two.optimizer.kernels().at(0);
  EXPECT_EQ(kernel.device, "cpu");
  EXPECT_EQ(kernel.target(), jit::Target::cpu());
  EXPECT_EQ(kernel.how.config.threads, 1);
  EXPECT_FALSE(kernel.how.why.empty());
  EXPECT_TRUE(
      kernel.unit().starts_with("#define JITSTEP_REAL float\n#include \"rules/adamw.cuh\""));
  EXPECT_NE(kernel.source().find("struct TensorRecord {"), std::string::npos);
  EXPECT_EQ(kernel.source().find("#include \""), std::string::npos) << "it is self-contained";
  ASSERT_GT(kernel.binary().size(), 4u);
  EXPECT_EQ(static_cast<char>(kernel.binary()[1]), 'E');
  const std::string text = kernel.text();
  for (const std::string& part :
       {std::string("adamw_fp32_float32 for cpu on cpu"), kernel.built->key, kernel.how.why,
        std::string("parameters 2 (group/index 0/0, 0/2)")})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(KernelReport, ListsTheKernelsOfCompileBeforeTheFirstStep) {
  TwoDtypes two;
  const std::vector<KernelReport> before = two.optimizer.kernels();
  train(two.optimizer, two.all, 1, 1);
  const std::vector<KernelReport> after = two.optimizer.kernels();
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].built->key, after[i].built->key);
    EXPECT_EQ(indices_of(before[i]), indices_of(after[i]));
  }
}

TEST(KernelReport, ListsEachKernelOfStepsInBackwardOnce) {
  TwoDtypes two;
  two.optimizer.step_in_backward();
  (two.floats[0].sum() + two.floats[1].sum() + two.buffers[0].to(torch::kFloat32).sum()).backward();
  const std::vector<KernelReport> kernels = two.optimizer.kernels();
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(indices_of(kernels[0]), (Indices{{0, 0}, {0, 2}}));
}

TEST(KernelReport, ListsOfKernelsAreFilesOfSelfContainedSources) {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("jitstep-kernels-" + std::to_string(::getpid())))
          .string();
  TwoDtypes two;
  train(two.optimizer, two.all, 1, 1);
  const std::vector<KernelReport> kernels = two.optimizer.kernels();
  write_kernels(kernels, file);
  std::ifstream in(file);
  std::size_t count = 0;
  for (std::string line; std::getline(in, line); ++count) {
    const auto one = nlohmann::json::parse(line);
    ASSERT_LT(count, kernels.size());
    EXPECT_EQ(one.at("name"), kernels[count].name());
    EXPECT_EQ(one.at("target"), "cpu");
    EXPECT_EQ(one.at("unit"), kernels[count].unit());
    EXPECT_EQ(one.at("source"), kernels[count].source());
  }
  EXPECT_EQ(count, 2u);
  std::filesystem::remove(file);
  EXPECT_THROW(write_kernels(kernels, "/dev/null/kernels"), c10::Error);
}

TEST(KernelReport, OutlivesTheOptimizer) {
  KernelReport kernel;
  {
    TwoDtypes two;
    kernel = two.optimizer.kernels().at(1);
  }
  EXPECT_NE(kernel.source().find("BFloat16"), std::string::npos);
}

}  // namespace
}  // namespace jitstep::tests
