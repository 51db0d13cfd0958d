// Tuning in an optimizer's own steps. Each run has its own process and cache folder. Otherwise the next run would find
// its results.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <jitstep/jit/engine.h>
#include <jitstep/jit/error.h>
#include <jitstep/jitstep.h>
#include <torch/types.h>

#include "support/own_process.h"

namespace jitstep {
namespace {

using nlohmann::json;
using tests::OwnProcess;

constexpr int kSteps = 800;  // nine candidates and the confirmation of the best take at most 640

// Two parameters after these steps, one of them in 8 bits.
std::vector<torch::Tensor> trained(const AdamWOptions& options, int steps = kSteps,
                                   const Optimizer::TuningAgreement& agree = {}) {
  torch::manual_seed(3);
  std::vector<torch::Tensor> params = {torch::randn({120, 90}), torch::randn({77})};
  for (torch::Tensor& p : params) p.requires_grad_();
  AdamW opt(params, options);
  if (agree) opt.set_tuning_agreement(agree);
  for (int step = 0; step < steps; ++step) {
    for (torch::Tensor& p : params) p.mutable_grad() = torch::randn_like(p);
    opt.step();
  }
  return params;
}

bool same_bits(const std::vector<torch::Tensor>& one, const std::vector<torch::Tensor>& other) {
  for (std::size_t i = 0; i < one.size(); ++i)
    if (!torch::equal(one[i].detach().view(torch::kInt32), other[i].detach().view(torch::kInt32)))
      return false;
  return true;
}

AdamWOptions in_8_bits() { return AdamWOptions(1e-2).state("int8").max_grad_norm(1.0); }
// Compiles in a third of the time. For tests about who is asked, not about what is tuned.
AdamWOptions in_float() { return AdamWOptions(1e-2); }

TEST(TunedSteps, DISABLED_GiveTheBitsOfUntunedSteps) {
  EXPECT_TRUE(same_bits(trained(in_8_bits()), trained(in_8_bits().tune())));
}

TEST(TunedSteps, DISABLED_WithDefaultOptions) { trained(in_float()); }

TEST(TunedSteps, DISABLED_OfOneThread) {
  at::set_num_threads(1);
  trained(in_float().tune());
}

TEST(TunedSteps, DISABLED_OfADefaultKernel) { trained(in_float(), 1); }

TEST(TunedSteps, DISABLED_CompileAllKernels) {
  trained(in_float().tune(), 1);
  EXPECT_EQ(jit::default_engine().statistics().from_disk, 0u);
}

TEST(TunedSteps, DISABLED_WarnThatRanksDoNotAgree) {
  std::vector<std::string> warnings;
  jit::set_warning_handler([&](const std::string& warning) { warnings.push_back(warning); });
  trained(in_float().tune(), 20);
  jit::set_warning_handler({});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("WORLD_SIZE is 2"), std::string::npos) << warnings[0];
}

// As if all other ranks had measured the first candidate as the fastest.
TEST(TunedSteps, DISABLED_AgreeWithOtherRanks) {
  int asked = 0;
  const auto agree = [&](const std::vector<double>& own) {
    ++asked;
    std::vector<double> all(own.size(), 1.0);
    all.at(0) = 0.5;
    return all;
  };
  const auto tuned = trained(in_float().tune(), kSteps, agree);
  EXPECT_GE(asked, 2);
  EXPECT_TRUE(same_bits(tuned, trained(in_float(), kSteps)));
}

// The call comes when the step is complete.
TEST(TunedSteps, DISABLED_KeepTheStepIfTheAgreementThrows) {
  const auto fails = [](const std::vector<double>&) -> std::vector<double> {
    throw std::runtime_error("no agreement");
  };
  torch::Tensor p = torch::ones({100}).requires_grad_(),
                other = torch::ones({100}).requires_grad_();
  AdamW tuned({p}, in_float().tune()), plain({other}, in_float());
  tuned.set_tuning_agreement(fails);
  int steps = 0;
  bool threw = false;
  while (!threw && steps < kSteps) {
    p.mutable_grad() = torch::ones({100});
    try {
      tuned.step();
    } catch (const std::exception&) {
      threw = true;
    }
    ++steps;
  }
  ASSERT_TRUE(threw);
  for (int step = 0; step < steps; ++step) {
    other.mutable_grad() = torch::ones({100});
    plain.step();
  }
  EXPECT_TRUE(same_bits({p}, {other}));
  EXPECT_EQ(static_cast<ParamState&>(*tuned.state().at(p.unsafeGetTensorImpl())).step(), steps);
}

TEST(TunedSteps, DISABLED_AgreeAlsoFromALaterStepOn) {
  int asked = 0;
  torch::Tensor p = torch::ones({100}).requires_grad_();
  AdamW opt({p}, in_float().tune());
  for (int step = 0; step < kSteps; ++step) {
    p.mutable_grad() = torch::ones({100});
    opt.step();
    if (step == 0)
      opt.set_tuning_agreement([&](const std::vector<double>& own) { return ++asked, own; });
  }
  EXPECT_GE(asked, 1);
}

TEST(TunedSteps, DISABLED_OfOptionsOfAGroup) {
  int asked = 0;
  torch::Tensor p = torch::ones({100}).requires_grad_();
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector{p}, in_float().tune().copy());
  Optimizer opt(groups);
  opt.set_tuning_agreement([&](const std::vector<double>& own) { return ++asked, own; });
  for (int step = 0; step < kSteps; ++step) {
    p.mutable_grad() = torch::ones({100});
    opt.step();
  }
  EXPECT_GE(asked, 1);
}

TEST(TunedSteps, GiveTheBitsOfUntunedStepsAndWriteTheirTrials) {
  const OwnProcess process;
  ASSERT_EQ(process.run("TunedSteps.DISABLED_GiveTheBitsOfUntunedSteps"), 0);
  const std::vector<json> records = process.records();
  ASSERT_GE(records.size(), 1u) << "the tuning of the first kernel must be complete";
  EXPECT_EQ(records[0].at("strategy"), "in steps");
  EXPECT_EQ(records[0].at("complete"), true);
  int timed = 0;
  for (const json& trial : records[0].at("trials")) timed += trial.at("status") == "timed";
  EXPECT_GE(timed, 4);
}

TEST(TunedSteps, MayBeEnabledByTheEnvironment) {
  const OwnProcess process;
  ASSERT_EQ(process.run("TunedSteps.DISABLED_WithDefaultOptions"), 0);
  EXPECT_TRUE(process.records().empty());
  ASSERT_EQ(process.run("TunedSteps.DISABLED_WithDefaultOptions", "JITSTEP_TUNE=1"), 0);
  EXPECT_FALSE(process.records().empty());
}

TEST(TunedSteps, RecordTheThreadsOfTorch) {
  const OwnProcess process;
  ASSERT_EQ(process.run("TunedSteps.DISABLED_OfOneThread"), 0);
  const std::vector<json> records = process.records();
  ASSERT_FALSE(records.empty());
  EXPECT_EQ(records[0].at("hardware").at("units"), 1);
}

TEST(TunedSteps, CompareNoBaselineWithKernelsOfThisProcessor) {
#ifndef __x86_64__
  GTEST_SKIP() << "baselines exist only for x86-64";
#endif
  const OwnProcess others, process;
  ASSERT_EQ(others.run("TunedSteps.DISABLED_OfADefaultKernel", "JITSTEP_CPU=x86-64-v2"), 0);
  const std::string shipped = "JITSTEP_CACHE_READONLY=" + others.folder();
  EXPECT_EQ(process.run("TunedSteps.DISABLED_CompileAllKernels", shipped), 0);
}

TEST(TunedSteps, OfSeveralRanksAreRejectedWithoutAnAgreement) {
  const OwnProcess process;
  ASSERT_EQ(process.run("TunedSteps.DISABLED_WarnThatRanksDoNotAgree", "WORLD_SIZE=2"), 0);
  EXPECT_TRUE(process.records().empty());
}

TEST(TunedSteps, SurviveAnAgreementThatThrowsOrComesLate) {
  EXPECT_EQ(OwnProcess().run("TunedSteps.DISABLED_KeepTheStepIfTheAgreementThrows"), 0);
  EXPECT_EQ(OwnProcess().run("TunedSteps.DISABLED_AgreeAlsoFromALaterStepOn"), 0);
}

TEST(TunedSteps, MayBeEnabledByTheOptionsOfAGroup) {
  EXPECT_EQ(OwnProcess().run("TunedSteps.DISABLED_OfOptionsOfAGroup"), 0);
}

TEST(TunedSteps, OfSeveralRanksUseTheAgreedConfig) {
  const OwnProcess process;
  ASSERT_EQ(process.run("TunedSteps.DISABLED_AgreeWithOtherRanks", "WORLD_SIZE=2"), 0);
  const std::vector<json> records = process.records();
  ASSERT_GE(records.size(), 1u);
  EXPECT_EQ(records[0].at("outcome"), "won");
  EXPECT_EQ(records[0].at("configuration"), records[0].at("trials")[0].at("configuration"));
}

}  // namespace
}  // namespace jitstep
