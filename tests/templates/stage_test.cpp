// Rules with a host transform: what the host is given, when, and what becomes of what it returns.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "jitstep/jit/error.h"
#include "support/plain_steps.h"

namespace jitstep::support {
namespace {

// Hands over the sum of the gradients; the parameter becomes what comes back.
constexpr const char* kMirrored = R"(// A probe.   host transform: mirrored
#pragma once
#include "../core/contract.cuh"
namespace jitstep::rules::mirrored {
struct Slots {
  Signed m;
};
struct Rule {
  KHD static void update_state(auto& e, const auto&) { e.m.next = e.m.prev + e.g; }
  KHD static real transformed(const auto& e, const auto&) { return e.m.next; }
  KHD static void update_param(auto& e, const auto&) { e.p = e.transformed; }
};
}
)";

// Remembers what it has allocated.
class WatchedMachine : public jit::CpuBackend {
 public:
  using CpuBackend::CpuBackend;
  std::shared_ptr<void> allocate(std::size_t bytes) override {
    auto memory = CpuBackend::allocate(bytes);
    given_.push_back(memory);
    return memory;
  }
  // Whether the address lies at the beginning of memory that is still held.
  bool holds(const void* address) const {
    for (const auto& memory : given_)
      if (memory.lock().get() == address) return true;
    return false;
  }

 private:
  std::vector<std::weak_ptr<void>> given_;
};

class HostStages : public testing::Test {
 protected:
  struct Tensor {
    std::vector<std::int64_t> sizes;
    std::string rule = "mirrored";
  };

  void make(const std::vector<Tensor>& tensors) {
    std::vector<jit::Batch> batches;
    for (const Tensor& tensor : tensors) {
      const jit::OptionValues options(tensor.rule, own.catalog);
      const jit::Plan plan = jit::resolve(options, {"fp32"}, own.catalog);
      states.push_back(std::make_unique<jit::StateStorage>(cpu, plan, options, tensor.sizes));
      const auto id = static_cast<int>(p.size());
      p.emplace_back(6, 5.0f);
      g.push_back({1, 2, 3, 4, 5, 6});
      batches.push_back({plan, {states.back()->tensor(p.back().data(), id)}});
      inputs.push_back({.g = g.back().data(), .hyper_index = id});
      sets.push_back(options.at_step(1));
    }
    step = std::make_unique<jit::Step>(cpu, batches);
  }

  OwnTemplates own{{{"rules/mirrored.cuh", kMirrored}}};
  WatchedMachine cpu{own.engine};
  std::vector<std::unique_ptr<jit::StateStorage>> states;
  std::vector<std::vector<float>> p, g;
  std::vector<jit::StepInput> inputs;
  std::vector<HyperParams> sets;
  std::unique_ptr<jit::Step> step;
};

TEST_F(HostStages, AreGivenTheNewValuesOfEachTensorAndGiveThemBack) {
  make({{.sizes = {2, 3}}, {.sizes = {0}}, {.sizes = {6}, .rule = "sgd"}, {.sizes = {6}}});
  std::vector<std::size_t> asked;
  step->run(inputs, sets, [&](const std::vector<jit::TransformedTensor>& tensors) {
    for (const auto& [tensor, memory] : tensors) {
      asked.push_back(tensor);
      auto* const values = static_cast<float*>(memory);
      for (int i = 0; i < 6; ++i) {
        EXPECT_EQ(values[i], g[tensor][i]);
        values[i] = 100.0f * static_cast<float>(tensor + 1) - values[i];
      }
    }
  });
  EXPECT_EQ(asked, (std::vector<std::size_t>{0, 3}));
  EXPECT_EQ(p[0], (std::vector<float>{99, 98, 97, 96, 95, 94}));
  EXPECT_EQ(p[3], (std::vector<float>{399, 398, 397, 396, 395, 394}));
  EXPECT_NE(p[2], std::vector<float>(6, 5)) << "stepped by its own rule";
}

TEST_F(HostStages, MayFailBeforeAnythingHasChanged) {
  make({{.sizes = {6}}, {.sizes = {6}}});
  for (int attempt = 0; attempt < 2; ++attempt) {
    step->prepare(inputs, sets);
    EXPECT_THROW(step->host_transform([](const auto&) { throw jit::Error("no"); }), jit::Error);
    EXPECT_THROW(step->launch(), jit::Error) << "nothing is prepared any more";
    EXPECT_EQ(p[0], std::vector<float>(6, 5));
  }
  step->run(inputs, sets, [](const auto&) {});
  EXPECT_EQ(p[0], g[0]) << "the gradients were added once";
}

TEST_F(HostStages, AreNotForgotten) {
  make({{.sizes = {6}}});
  EXPECT_THROW(step->host_transform([](const auto&) {}), jit::Error) << "nothing is prepared";
  step->prepare(inputs, sets);
  try {
    step->launch();
    FAIL() << "launched without its transform";
  } catch (const jit::Error& error) {
    EXPECT_NE(std::string(error.what()).find("Call Step::host_transform() first."),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(p[0], std::vector<float>(6, 5));
}

TEST_F(HostStages, HaveMemoryForTheStepAlone) {
  make({{.sizes = {6}}});
  const void* values = nullptr;
  const auto transform = [&](const std::vector<jit::TransformedTensor>& tensors) {
    values = tensors.at(0).values;
    EXPECT_TRUE(cpu.holds(values));
  };
  step->run(inputs, sets, transform);
  EXPECT_FALSE(cpu.holds(values));
  step->prepare(inputs, sets);
  EXPECT_THROW(step->host_transform([&](const std::vector<jit::TransformedTensor>& tensors) {
    transform(tensors);
    throw jit::Error("no");
  }),
               jit::Error);
  EXPECT_FALSE(cpu.holds(values));
}

TEST_F(HostStages, OfARuleForMatricesAreForNothingElse) {
  const jit::OptionValues options("muon", own.catalog);
  const jit::Plan plan = jit::resolve(options, {"fp32"}, own.catalog);
  EXPECT_NO_THROW(jit::StateStorage(cpu, plan, options, {2, 3}));
  for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{6}, {1, 2, 3}})
    EXPECT_THROW(jit::StateStorage(cpu, plan, options, sizes), jit::Error);
}

}  // namespace
}  // namespace jitstep::support
