// Sums over all tensors if several kernels step the tensors. The tests compare them with sums in double, and require
// the same bits for every division into batches.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "jit/fixtures.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/state_storage.h"
#include "jitstep/jit/step.h"

namespace jitstep::jit {
namespace {

using testing::error_of;
using testing::settings_with_cache;
using testing::TemporaryFolder;

// p becomes the sum of the squares of all gradients and descends by g. With `twice`, the kernel computes another sum
// first.
const std::string kSummed = R"(#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::summed {
struct Hyper {
  double lr = 1;  // >= 0
};
struct Flags {
  bool twice = false;
  bool replace = false;
};
struct Slots {
  Signed m;
};
struct Scalars { real lr; };
struct Sizes { double sum; };
struct Squares { double sum; };
struct Reductions {
  Sum<all, 2, Sizes> sizes;      // if twice
  Sum<all, 1, Squares> squares;  // after: sizes
};
template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) { return {static_cast<real>(h.lr)}; }
  KHD static Reals<2> terms(Of<Sizes>, const auto& e, const auto&) { return {abs(e.g), real(1)}; }
  KHD static Sizes finalize(Of<Sizes>, const Totals<2>& sum, int64, const auto&) { return {sum[0]}; }
  KHD static Reals<1> terms(Of<Squares>, const auto& e, const auto&) { return {e.g * e.g}; }
  KHD static Squares finalize(Of<Squares>, const Totals<1>& sum, int64, const auto&) { return {sum[0]}; }
  KHD static void update_state(auto& e, const auto&) { e.m.next = e.g; }
  KHD static void update_param(auto& e, const auto& c) {
    const double more = F.twice ? c.sizes.sum : 0.0;
    e.p = F.replace ? static_cast<real>(c.squares.sum + more) : e.p - c.lr * e.g;
  }
};
}
)";

class SharedSums : public ::testing::Test {
 protected:
  SharedSums() { load(catalog, kSummed); }

  void load(Catalog& into, const std::string& rule) {
    testing::write_file(folder / "summed.cuh", rule);
    into.load_rule(folder / "summed.cuh");
  }

  Plan plan(const OptionValues& options, const CodecChoice& codec = {"fp32"},
            Dtype dtype = Dtype::float32) const {
    KernelSpec spec = resolve(options, codec).spec;
    spec.state.dtype = dtype;
    return resolve(spec, catalog);
  }

  OptionValues options(bool twice, bool replace, double max_grad_norm = 0) const {
    OptionValues made("summed", catalog);
    made.set("twice", twice);
    made.set("replace", replace);
    made.set("max_grad_norm", max_grad_norm);
    return made;
  }

  TemporaryFolder folder;
  Engine engine{settings_with_cache(folder.path())};
  Catalog catalog{engine.templates()};
  CpuBackend cpu{engine};
};

TEST_F(SharedSums, ClippingUsesTheNormOfAllBatchesEvenIfOneHasAnotherSum) {
  const OptionValues once = options(false, false, 1), twice = options(true, false, 1);
  std::vector<float> p(75), q(25), g(75, 2.0f);  // a norm of 20
  const StateStorage of_p(cpu, plan(once), once, {75}), of_q(cpu, plan(twice), twice, {25});
  for (const bool first : {true, false}) {
    p.assign(75, 0);
    q.assign(25, 0);
    std::vector<Batch> batches = {{plan(once), {of_p.tensor(p.data(), 0)}},
                                  {plan(twice), {of_q.tensor(q.data(), 1)}}};
    if (!first) std::swap(batches[0], batches[1]);
    Step(cpu, batches).run({{.g = g.data()}, {.g = g.data()}}, {once.at_step(1)});
    const float expected = static_cast<float>(-2 * 0.05);
    for (const float x : p) ASSERT_NEAR(x, expected, 1e-7);
    for (const float x : q) ASSERT_NEAR(x, expected, 1e-7);
  }
}

TEST_F(SharedSums, CoverAllTensorsOfTheKernelsThatComputeThem) {
  const OptionValues once = options(false, true), twice = options(true, true);
  std::vector<float> p(70), q(30), g(70);
  std::iota(g.begin(), g.end(), -20.0f);
  double squares = 0, sizes = 0;
  for (int i = 0; i < 70; ++i) squares += g[i] * g[i];
  for (int i = 0; i < 30; ++i) squares += g[i] * g[i], sizes += std::abs(g[i]);
  const StateStorage of_p(cpu, plan(once), once, {70}), of_q(cpu, plan(twice), twice, {30});
  Step(cpu, {{plan(once), {of_p.tensor(p.data(), 0)}}, {plan(twice), {of_q.tensor(q.data(), 1)}}})
      .run({{.g = g.data()}, {.g = g.data()}}, {once.at_step(1)});
  EXPECT_EQ(p, std::vector<float>(70, static_cast<float>(squares)));
  EXPECT_EQ(q, std::vector<float>(30, static_cast<float>(squares + sizes)));
}

TEST_F(SharedSums, OfTwoRulesAreSeparateEvenIfTheirNamesAreEqual) {
  std::string other = kSummed;
  other.replace(other.find("rules::summed"), 13, "rules::nearby");
  testing::write_file(folder / "nearby.cuh", other);
  catalog.load_rule(folder / "nearby.cuh");
  const OptionValues ours = options(false, true);
  OptionValues theirs("nearby", catalog);
  theirs.set("replace", true);
  std::vector<float> p(70), q(30), g(70, 3.0f);
  const StateStorage of_p(cpu, plan(ours), ours, {70}), of_q(cpu, plan(theirs), theirs, {30});
  Step(cpu, {{plan(ours), {of_p.tensor(p.data(), 0)}}, {plan(theirs), {of_q.tensor(q.data(), 1)}}})
      .run({{.g = g.data()}, {.g = g.data()}}, {ours.at_step(1)});
  EXPECT_EQ(p, std::vector<float>(70, 630.0f));
  EXPECT_EQ(q, std::vector<float>(30, 270.0f));
}

// Tensors of several kinds. Each kind has its own kernel, unless two are equal.
struct Kind {
  std::vector<std::int64_t> sizes;
  CodecChoice codec;
  Dtype dtype = Dtype::float32;
  bool twice = false;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {{{1000}, {"fp32"}},
                                        {{33, 70}, {"int8"}},
                                        {{257}, {"fp32"}, Dtype::bfloat16},
                                        {{5, 7, 11}, {"int4"}, Dtype::float32, true},
                                        {{4099}, {"fp32"}},
                                        {{300}, {"int8"}, Dtype::bfloat16, true},
                                        {{0}, {"fp32"}}};
  return all;
}

std::vector<float> gradient(int id, std::int64_t n) {
  std::vector<float> g(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i)
    g[i] =
        std::sin(static_cast<float>(i * 7 + id)) * std::pow(10.0f, static_cast<float>(i % 7) - 3);
  return g;
}

class DividedSums : public SharedSums {
 protected:
  // The sum that each tensor received, by id. `cut` has the ids of each batch.
  std::map<int, float> sums_by_id(const std::vector<std::vector<int>>& cut) {
    std::vector<Batch> batches;
    std::vector<StateStorage> states;
    std::vector<std::vector<float>> gradients, values;
    std::vector<StepInput> inputs;
    for (const auto& ids : cut) {
      const Kind& kind = kinds()[ids[0]];
      const OptionValues chosen = options(kind.twice, true);
      batches.push_back({plan(chosen, kind.codec, kind.dtype), {}});
      for (const int id : ids) {
        const StateStorage& state =
            states.emplace_back(cpu, batches.back().plan, chosen, kinds()[id].sizes);
        const std::int64_t n = state.tensor(nullptr).shape.elements();
        gradients.push_back(gradient(id, n));
        values.emplace_back(n + 1);
        inputs.push_back({.g = gradients.back().data()});
        batches.back().tensors.push_back(state.tensor(values.back().data(), id));
      }
    }
    Step(cpu, batches).run(inputs, {options(false, true).at_step(1)});
    std::map<int, float> sums;
    std::size_t index = 0;
    for (const auto& ids : cut)
      for (const int id : ids) sums[id] = value(values[index++], kinds()[id].dtype);
    return sums;
  }

  static float value(const std::vector<float>& p, Dtype dtype) {
    std::uint32_t bits;
    std::memcpy(&bits, p.data(), 4);
    if (dtype == Dtype::bfloat16) bits <<= 16;
    float first;
    std::memcpy(&first, &bits, 4);
    return first;
  }
};

TEST_F(DividedSums, EqualThoseOfPlainLoops) {
  double squares = 0, sizes = 0;
  for (int id = 0; id < 7; ++id) {
    const auto& shape = kinds()[id].sizes;
    const auto n =
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    for (const float g : gradient(id, n)) {
      squares += static_cast<double>(g) * g;
      if (kinds()[id].twice) sizes += std::abs(g);
    }
  }
  for (const auto& [id, sum] : sums_by_id({{0, 4}, {1}, {2}, {3}, {5}, {6}})) {
    if (id == 6) continue;  // no elements
    const double expected = squares + (kinds()[id].twice ? sizes : 0);
    const double tolerance = kinds()[id].dtype == Dtype::bfloat16 ? 4e-3 : 1e-6;
    EXPECT_NEAR(sum, expected, tolerance * expected) << "tensor " << id;
  }
}

TEST_F(DividedSums, HaveTheSameBitsInAnyOrderAndAnyBatches) {
  const auto expected = sums_by_id({{0, 4, 6}, {1}, {2}, {3}, {5}});
  EXPECT_EQ(sums_by_id({{5}, {3}, {4, 6, 0}, {2}, {1}}), expected);
  EXPECT_EQ(sums_by_id({{2}, {6}, {4}, {1}, {0}, {5}, {3}}), expected);
}

// The norm of all gradients from the sums of each tensor or of each row.
const std::string kRooted = R"(#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::rooted {
struct Own { double sum; };
struct Whole { double sum; int count; };
struct Reductions {
  Sum<DOMAIN, 1, Own> own;
  Sum<all, 1, Whole, Entries<DOMAIN, Own>> whole;
};
struct Rule {
  KHD static Reals<1> terms(Of<Own>, const auto& e, const auto&) { return {e.g}; }
  KHD static Own finalize(Of<Own>, const Totals<1>& sum, int64, const auto&) { return {sum[0]}; }
  KHD static Reals<1> terms(Of<Whole>, const Own& own, const auto&) {
    return {static_cast<real>(own.sum * own.sum)};
  }
  KHD static Whole finalize(Of<Whole>, const Totals<1>& sum, int64 count, const auto&) {
    return {sum[0], static_cast<int>(count)};
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p = static_cast<real>(c.whole.sum + c.whole.count / 1024.0);
  }
};
}
)";

TEST_F(SharedSums, MaySumTheEntriesOfEachTensor) {
  const std::vector<std::vector<std::int64_t>> shapes = {{2, 3}, {0, 4}, {700, 2}, {5}};
  for (const std::string domain : {"tensor", "rows"}) {
    std::string rule = kRooted;
    while (rule.find("DOMAIN") != rule.npos) rule.replace(rule.find("DOMAIN"), 6, domain);
    testing::write_file(folder / "rooted.cuh", rule);
    catalog.load_rule(folder / "rooted.cuh");
    const OptionValues values("rooted", catalog);
    const Plan whole = resolve(values, {"fp32"});
    std::vector<std::vector<float>> p(shapes.size(), std::vector<float>(1400));
    const std::vector<float> ones(1400, 1.0f);
    std::vector<Batch> batches;
    double expected = 0;
    for (std::size_t i = 0; i < shapes.size(); ++i) {  // each in its own batch
      const StateStorage state(cpu, whole, values, shapes[i]);
      batches.push_back({whole, {state.tensor(p[i].data(), static_cast<int>(i))}});
      const std::int64_t columns = shapes[i].back();
      const std::int64_t rows = shapes[i].size() == 2 ? shapes[i][0] : 1;
      if (rows == 0) continue;
      const double entries = domain == "rows" ? static_cast<double>(rows) : 1.0;
      const double one =
          domain == "rows" ? static_cast<double>(columns) : static_cast<double>(rows * columns);
      expected += entries * (one * one + 1 / 1024.0);
    }
    Step(cpu, batches)
        .run(std::vector<StepInput>(shapes.size(), StepInput{.g = ones.data()}),
             {whole.at_step(values, 1)});
    for (const std::size_t i : {0, 2, 3})
      EXPECT_FLOAT_EQ(p[i][0], static_cast<float>(expected)) << domain;
  }
}

TEST_F(SharedSums, OfTwoFilesOfOneNameThrowBeforeAnythingIsCompiled) {
  std::string other = kSummed;
  other.replace(other.find("Sum<all, 1, Squares>"), 20, "Max<all, 1, Squares>");
  TemplateStore elsewhere;
  Catalog changed(elsewhere);
  load(changed, other);
  const OptionValues ours = options(false, true), theirs("summed", changed);
  float p[2] = {}, m[2] = {};
  StepTensor tensor;
  tensor.p = &p[0];
  tensor.slots = {{&m[0], nullptr}};
  tensor.shape = {{1}, {1}};
  tensor.g_strides = {1};
  StepTensor second = tensor;
  second.p = &p[1];
  second.slots = {{&m[1], nullptr}};
  second.id = 1;
  const std::string error = error_of([&] {
    Step(cpu, {{plan(ours), {tensor}}, {resolve(theirs, {"fp32"}), {second}}});
  });
  EXPECT_NE(error.find("the sum 'squares' of "), std::string::npos) << error;
  EXPECT_NE(error.find("two files"), std::string::npos) << error;
  EXPECT_EQ(engine.statistics().compiled, 0u);
}

}  // namespace
}  // namespace jitstep::jit
