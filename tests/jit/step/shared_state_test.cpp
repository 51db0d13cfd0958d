// Shared state: one value of domain `all` for all tensors that step together. The tests read it back and compare it
// with formulas of their own.
#include "jitstep/jit/state_storage.h"

#include <gtest/gtest.h>

#include <map>

#include "jit/fixtures.h"
#include "jitstep/jit/engine.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/step.h"

namespace jitstep::jit {
namespace {

using testing::error_of;
using testing::TemporaryFolder;

// `prepare` adds lr to `steps`, and `finalize` adds the sum of all gradients to `total`. p becomes 1000 steps + total.
const std::string kCounted = R"(#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::counted {
struct Hyper {
  double lr = 1;  // >= 0
  double start = 2;
};
struct Flags {
  bool summed = true;
};
struct AuxState {
  Entry<all, double> steps;
  Entry<all, double> total;  // initial: start
};
struct Scalars { double steps, total; };
struct Total { double now; };
struct Reductions {
  Sum<all, 1, Total> sum;  // if summed
};
template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64, AuxState& m) {
    m.steps.next = m.steps.prev + h.lr;
    return {m.steps.next, m.total.prev};
  }
  KHD static Reals<1> terms(Of<Total>, const auto& e, const auto&) { return {e.g}; }
  KHD static Total finalize(Of<Total>, const Totals<1>& sum, int64, const auto&, AuxState& m) {
    m.total.next = m.total.prev + sum[0];
    return {m.total.next};
  }
  KHD static void update_param(auto& e, const auto& c) {
    const double total = F.summed ? c.sum.now : c.total;
    e.p = static_cast<real>(1000 * c.steps + total);
  }
};
}
)";

StepTensor tensor_at(void* p, std::int64_t size, int id = 0) {
  StepTensor tensor;
  tensor.p = p;
  tensor.shape = {{size}, {1}};
  tensor.g_strides = {1};
  tensor.id = id;
  return tensor;
}

class SharedStateTest : public ::testing::Test {
 protected:
  SharedStateTest() {
    testing::write_file(folder / "counted.cuh", kCounted);
    catalog.load_rule(folder / "counted.cuh");
    shared = make_shared_state(cpu, OptionValues("counted", catalog));
  }

  struct TestTensor {
    int id;
    std::int64_t size = 3;
    double lr = 1;
    bool summed = true;
    Dtype dtype = Dtype::float32;  // tensors of one dtype and one `summed` make a batch
  };

  OptionValues options(const TestTensor& given) {
    OptionValues made("counted", catalog);
    made.set("lr", given.lr);
    made.set("summed", given.summed);
    return made;
  }

  Plan plan(const TestTensor& given) {
    KernelSpec spec = resolve(options(given), {"fp32"}).spec;
    spec.state.dtype = spec.gradient = given.dtype;
    return resolve(spec, catalog);
  }

  // A step of tensors whose gradients are ones, each in its own batch. Returns one element of p for each id.
  std::map<int, double> step(const std::vector<TestTensor>& given, std::int64_t t = 1) {
    std::vector<Batch> batches;
    std::vector<StepInput> inputs;
    std::vector<HyperParams> sets;
    std::vector<std::vector<double>> p(given.size());
    std::vector<double> doubles(8, 1.0);
    std::vector<float> floats(8, 1.0f);
    for (std::size_t i = 0; i < given.size(); ++i) {
      const TestTensor& one = given[i];
      p[i].resize(8);
      batches.push_back({plan(one), {tensor_at(p[i].data(), one.size, one.id)}});
      const bool wide = one.dtype == Dtype::float64;
      inputs.push_back({.g = wide ? static_cast<const void*>(doubles.data()) : floats.data(),
                        .hyper_index = static_cast<int>(i)});
      sets.push_back(batches.back().plan.at_step(options(one), t));
    }
    Step(cpu, batches, &shared).run(inputs, sets);
    std::map<int, double> found;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const auto* narrow = reinterpret_cast<const float*>(p[i].data());
      found[given[i].id] = given[i].dtype == Dtype::float64 ? p[i][0] : narrow[0];
    }
    return found;
  }

  TemporaryFolder folder;
  Engine engine{testing::settings_with_cache(folder / "cache")};
  Catalog catalog{engine.templates()};
  CpuBackend cpu{engine};
  SharedState shared;
};

using Found = std::map<int, double>;

TEST_F(SharedStateTest, StartsAsDeclared) {
  EXPECT_EQ(shared.now()[0], 0);
  EXPECT_EQ(shared.now()[1], 2);
  EXPECT_EQ(shared.steps, 0);
  EXPECT_EQ(initial_shared_state(OptionValues("counted", catalog)), (std::vector<double>{0, 2}));
}

TEST_F(SharedStateTest, IsTheSameForAllTensorsWhateverTheirKernels) {
  const std::vector<TestTensor> given = {
      {.id = 0}, {.id = 1, .dtype = Dtype::float64}, {.id = 2, .size = 5}};
  EXPECT_EQ(step(given), (Found{{0, 1013}, {1, 1013}, {2, 1013}}));  // 2 and 11 gradients
  EXPECT_EQ(step(given, 2), (Found{{0, 2024}, {1, 2024}, {2, 2024}}));
  EXPECT_EQ(shared.now()[0], 2);
  EXPECT_EQ(shared.now()[1], 24);
}

TEST_F(SharedStateTest, AdvancesWhenTensorsMissSteps) {
  step({{.id = 0}, {.id = 1}});                                               // 2 + 6
  EXPECT_EQ(step({{.id = 1}}, 2), (Found{{1, 2011}}));                        // + 3
  EXPECT_EQ(step({{.id = 0}, {.id = 2}}, 2), (Found{{0, 3017}, {2, 3017}}));  // + 6
}

TEST_F(SharedStateTest, AdvancesByTheNumbersOfTheLowestIdThatHasElements) {
  step({{.id = 3, .lr = 5}, {.id = 1, .size = 0, .lr = 7}, {.id = 2, .lr = 11}});
  EXPECT_EQ(shared.now()[0], 11);
  EXPECT_EQ(shared.now()[1], 8);
  step({{.id = 0, .lr = 3}, {.id = 2, .lr = 11}});
  EXPECT_EQ(shared.now()[0], 14);
}

TEST_F(SharedStateTest, AdvancesByPrepareIfNoSumFinalizesIt) {
  EXPECT_EQ(step({{.id = 0, .summed = false}, {.id = 1, .summed = false}}),
            (Found{{0, 1002}, {1, 1002}}));
  EXPECT_EQ(step({{.id = 1, .summed = false}}), (Found{{1, 2002}}));
}

TEST_F(SharedStateTest, StaysWhenNoTensorHasElements) {
  step({{.id = 0}});
  step({{.id = 0, .size = 0}});
  EXPECT_EQ(shared.steps, 1);
  EXPECT_EQ(shared.now()[0], 1);
  EXPECT_EQ(shared.now()[1], 5);
}

TEST_F(SharedStateTest, StaysWhenAStepIsNotLaunched) {
  const TestTensor given{.id = 0};
  std::vector<float> p(3), g(3, 1.0f);
  Step made(cpu, {{plan(given), {tensor_at(p.data(), 3)}}}, &shared);
  const std::vector<HyperParams> sets = {plan(given).at_step(options(given), 1)};
  for (int i = 0; i < 3; ++i) made.prepare({{.g = g.data()}}, sets);
  EXPECT_EQ(shared.now()[0], 0);
  made.launch();
  EXPECT_EQ(p[0], 1005);
  EXPECT_EQ(shared.steps, 1);
}

TEST_F(SharedStateTest, MustBePassedIfTheRuleHasIt) {
  std::vector<float> p(3);
  const std::vector<Batch> batches = {{plan({.id = 0}), {tensor_at(p.data(), 3)}}};
  EXPECT_NE(error_of([&] { Step(cpu, batches); }).find("make_shared_state()"), std::string::npos);
  SharedState none = make_shared_state(cpu, OptionValues("sgd", catalog));
  EXPECT_NE(
      error_of([&] { Step(cpu, batches, &none); }).find("the rule counted needs shared state"),
      std::string::npos);
}

TEST_F(SharedStateTest, IsNotSharedByTwoRules) {
  const auto at = kCounted.find("counted");
  testing::write_file(folder / "recounted.cuh", std::string(kCounted).insert(at, "re"));
  catalog.load_rule(folder / "recounted.cuh");
  std::vector<float> p(6);
  std::vector<Batch> batches;
  for (const char* rule : {"counted", "recounted"})
    batches.push_back({resolve(OptionValues(rule, catalog), {"fp32"}),
                       {tensor_at(&p[3 * batches.size()], 3, static_cast<int>(batches.size()))}});
  EXPECT_NE(error_of([&] { Step(cpu, batches, &shared); }).find("counted and recounted together"),
            std::string::npos);
}

TEST_F(SharedStateTest, AdvancesBesideARuleWithoutAnyThatHasTheLowestId) {
  const TestTensor given{.id = 1};
  const OptionValues sgd("sgd", catalog);
  const Plan other = resolve(sgd, {"fp32"});
  std::vector<float> p(3), q(3), g(3, 1.0f);
  Step both(cpu, {{other, {tensor_at(q.data(), 3, 0)}}, {plan(given), {tensor_at(p.data(), 3, 1)}}},
            &shared);
  both.run({{.g = g.data()}, {.g = g.data(), .hyper_index = 1}},
           {other.at_step(sgd, 1), plan(given).at_step(options(given), 1)});
  EXPECT_EQ(shared.now()[0], 1);
  EXPECT_EQ(shared.now()[1], 5);
}

TEST_F(SharedStateTest, OfARuleWithoutAnyIsEmpty) {
  const SharedState none = make_shared_state(cpu, OptionValues("adamw", catalog));
  EXPECT_EQ(none.storage, nullptr);
  EXPECT_EQ(none.now(), nullptr);
}

}  // namespace
}  // namespace jitstep::jit
