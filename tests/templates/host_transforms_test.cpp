// Rules with a host transform: its inputs, the time of the call, and the use of its results.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "jitstep/jit/error.h"
#include "support/plain_steps.h"

namespace jitstep::support {
namespace {

// The transform receives the sum of the gradients. The parameter becomes its result.
constexpr const char* kMirrored = R"(// A probe.   host transform: mirrored
#pragma once
#include "../lang/contract.cuh"
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

// The parameter becomes the sum over all tensors of what a transform returns for the gradients, plus a slot that adds
// them up. `first`: the transform gets them divided by the tensor's sum of gradients.
constexpr const char* kSummed = R"(// A probe.   host transform: mirrored
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::summed {
struct Flags {
  bool first = false;
};
struct Slots {
  Signed m;  // after: transformed
};
struct First {
  real sum;
};
struct All {
  real sum;
};
struct Reductions {
  Sum<tensor, 1, First> one;  // if first
  Sum<all, 1, All> total;     // after: transformed
};
template <Flags F>
struct Rule {
  KHD static Reals<1> terms(Of<First>, const auto& e, const auto&) { return {e.g}; }
  KHD static First finalize(Of<First>, const Totals<1>& sum, int64, const auto&) {
    return {static_cast<real>(sum[0])};
  }
  KHD static real transformed(const auto& e, const auto& c) {
    return F.first ? e.g / c.one.sum : e.g;
  }
  KHD static void update_state_after(auto& e, const auto&) { e.m.next = e.m.prev + e.transformed; }
  KHD static Reals<1> terms(Of<All>, const auto& e, const auto&) { return {e.transformed}; }
  KHD static All finalize(Of<All>, const Totals<1>& sum, int64, const auto&) {
    return {static_cast<real>(sum[0])};
  }
  KHD static void update_param(auto& e, const auto& c) { e.p = c.total.sum + e.m.next; }
};
}
)";

// Two transforms. The second one gets the first one's result, and a slot that depends on it.
constexpr const char* kTwice = R"(// A probe.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::twice {
struct Transforms {
  real first;   // host: one
  real second;  // host: two
};
struct Slots {
  Signed m;  // after: first
};
struct All {
  real sum;
};
struct Reductions {
  Sum<all, 1, All> total;  // after: second
};
struct Rule {
  KHD static real first(const auto& e, const auto&) { return e.g; }
  KHD static void update_state_after(auto& e, const auto&) { e.m.next = e.m.prev + e.first; }
  KHD static real second(const auto& e, const auto&) { return e.first + e.m.next; }
  KHD static Reals<1> terms(Of<All>, const auto& e, const auto&) { return {e.second}; }
  KHD static All finalize(Of<All>, const Totals<1>& sum, int64, const auto&) {
    return {static_cast<real>(sum[0])};
  }
  KHD static void update_param(auto& e, const auto& c) { e.p = c.total.sum + e.second - e.first; }
};
}
)";

// Records its allocations.
class RecordingAllocations : public jit::CpuBackend {
 public:
  using CpuBackend::CpuBackend;
  std::shared_ptr<void> allocate(std::size_t bytes) override {
    auto memory = CpuBackend::allocate(bytes);
    allocated_.push_back(memory);
    return memory;
  }
  // Whether the address is the start of an allocation that still exists.
  bool is_allocated(const void* address) const {
    for (const auto& memory : allocated_)
      if (memory.lock().get() == address) return true;
    return false;
  }

 private:
  std::vector<std::weak_ptr<void>> allocated_;
};

class HostTransforms : public testing::Test {
 protected:
  struct Tensor {
    std::vector<std::int64_t> sizes;
    std::string rule = "mirrored";
    bool first = false;  // of the rule `summed`
  };

  void make(const std::vector<Tensor>& tensors) {
    std::vector<jit::Batch> batches;
    for (const Tensor& tensor : tensors) {
      jit::OptionValues options(tensor.rule, own.catalog);
      if (tensor.first) options.set("first", true);
      const jit::Plan plan = jit::resolve(options, {"fp32"});
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

  OwnTemplates own{{{"rules/mirrored.cuh", kMirrored},
                    {"rules/summed.cuh", kSummed},
                    {"rules/twice.cuh", kTwice}}};
  RecordingAllocations cpu{own.engine};
  std::vector<std::unique_ptr<jit::StateStorage>> states;
  std::vector<std::vector<float>> p, g;
  std::vector<jit::StepInput> inputs;
  std::vector<HyperParams> sets;
  std::unique_ptr<jit::Step> step;
};

TEST_F(HostTransforms, ReceiveTheNewValuesOfEachTensorAndReturnTheirResults) {
  make({{.sizes = {2, 3}}, {.sizes = {0}}, {.sizes = {6}, .rule = "sgd"}, {.sizes = {6}}});
  std::vector<std::size_t> tensors_seen;
  step->run(inputs, sets, [&](const std::vector<jit::TransformedTensor>& tensors) {
    for (const auto& [tensor, memory, number] : tensors) {
      tensors_seen.push_back(tensor);
      auto* const values = static_cast<float*>(memory);
      for (int i = 0; i < 6; ++i) {
        EXPECT_EQ(values[i], g[tensor][i]);
        values[i] = 100.0f * static_cast<float>(tensor + 1) - values[i];
      }
    }
  });
  EXPECT_EQ(tensors_seen, (std::vector<std::size_t>{0, 3}));
  EXPECT_EQ(p[0], (std::vector<float>{99, 98, 97, 96, 95, 94}));
  EXPECT_EQ(p[3], (std::vector<float>{399, 398, 397, 396, 395, 394}));
  EXPECT_NE(p[2], std::vector<float>(6, 5)) << "stepped by its own rule";
}

// The transforms of the three tensors come after 0 and 1 passes. Both kernels share the sum, in pass 1.
TEST_F(HostTransforms, AreReadByLaterSumsOverAllTensorsAndByLaterSlots) {
  make({{.sizes = {6}, .rule = "summed"},
        {.sizes = {2, 3}, .rule = "summed", .first = true},
        {.sizes = {6}},
        {.sizes = {3, 2}, .rule = "summed"}});
  g[1] = {2, 2, 4, 4, 2, 2};  // with the sum 16
  for (int t = 1; t <= 2; ++t) {
    int calls = 0;
    for (std::size_t i = 0; i < sets.size(); ++i) sets[i].t = t;
    step->run(inputs, sets, [&](const std::vector<jit::TransformedTensor>& tensors) {
      ++calls;
      EXPECT_EQ(tensors.size(), 4u);
      for (const auto& [tensor, values, number] : tensors)
        for (int i = 0; i < 6; ++i) static_cast<float*>(values)[i] *= 8;
    });
    EXPECT_EQ(calls, 1);
    const float sum = 8 * (21 + 1 + 21);
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(p[0][i], sum + 8.0f * static_cast<float>(t) * g[0][i]);
      EXPECT_EQ(p[1][i], sum + static_cast<float>(t) * g[1][i] / 2);
      EXPECT_EQ(p[3][i], p[0][i]);
    }
  }
}

TEST_F(HostTransforms, RunInOrderAndReadTheResultsOfEarlierOnes) {
  make({{.sizes = {6}, .rule = "twice"}, {.sizes = {6}}});
  for (int t = 1; t <= 2; ++t) {
    std::vector<std::size_t> counts;
    for (HyperParams& set : sets) set.t = t;
    step->run(inputs, sets, [&](const std::vector<jit::TransformedTensor>& tensors) {
      counts.push_back(tensors.size());
      for (const jit::TransformedTensor& one : tensors) {
        EXPECT_EQ(one.transform + 1, static_cast<int>(counts.size()));
        for (int i = 0; i < 6; ++i)
          static_cast<float*>(one.values)[i] *= one.transform == 0 ? 10.0f : 2.0f;
      }
    });
    EXPECT_EQ(counts, (std::vector<std::size_t>{2, 1})) << "the other rule has one transform";
    // first = 10 g, m = 10 g t, second = 2 (first + m)
    const float scale = 2 * (10 + 10 * static_cast<float>(t));
    for (int i = 0; i < 6; ++i) EXPECT_EQ(p[0][i], scale * 21 + (scale - 10) * g[0][i]) << i;
  }
}

TEST_F(HostTransforms, MayFailBeforeAnythingHasChanged) {
  make({{.sizes = {6}}, {.sizes = {6}}});
  for (int attempt = 0; attempt < 2; ++attempt) {
    step->prepare(inputs, sets);
    EXPECT_THROW(step->host_transform([](const auto&) { throw jit::Error("no"); }), jit::Error);
    EXPECT_THROW(step->launch(), jit::Error) << "no step is prepared anymore";
    EXPECT_EQ(p[0], std::vector<float>(6, 5));
  }
  step->run(inputs, sets, [](const auto&) {});
  EXPECT_EQ(p[0], g[0]) << "the gradients were added once";
}

TEST_F(HostTransforms, CannotBeOmitted) {
  make({{.sizes = {6}}});
  EXPECT_THROW(step->host_transform([](const auto&) {}), jit::Error) << "no step is prepared";
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

TEST_F(HostTransforms, UseMemoryDuringTheStepOnly) {
  make({{.sizes = {6}}});
  const void* values = nullptr;
  const auto transform = [&](const std::vector<jit::TransformedTensor>& tensors) {
    values = tensors.at(0).values;
    EXPECT_TRUE(cpu.is_allocated(values));
  };
  step->run(inputs, sets, transform);
  EXPECT_FALSE(cpu.is_allocated(values));
  step->prepare(inputs, sets);
  EXPECT_THROW(step->host_transform([&](const std::vector<jit::TransformedTensor>& tensors) {
    transform(tensors);
    throw jit::Error("no");
  }),
               jit::Error);
  EXPECT_FALSE(cpu.is_allocated(values));
}

TEST_F(HostTransforms, OfARuleForMatricesAcceptOnlyMatrices) {
  const jit::OptionValues options("muon", own.catalog);
  const jit::Plan plan = jit::resolve(options, {"fp32"});
  EXPECT_NO_THROW(jit::StateStorage(cpu, plan, options, {2, 3}));
  for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{6}, {1, 2, 3}})
    EXPECT_THROW(jit::StateStorage(cpu, plan, options, sizes), jit::Error);
}

}  // namespace
}  // namespace jitstep::support
