// Sums over every domain against an independent evaluation of their definition, bit by bit.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "emulation/emulated_backend.h"
#include "jit/base/text.h"
#include "jit/codegen/unit.h"
#include "jitstep/jit/step.h"
#include "support/bits.h"
#include "support/plain_steps.h"

namespace jitstep::support {
namespace {

// A rule whose parameter becomes the sum (or maximum) of the gradient over its entry of a domain.
std::string probe_text(const std::string& name, const std::string& domain,
                       const std::string& op = "Sum") {
  return jit::str_cat(
      "// A probe.\n#pragma once\n#include \"../lang/contract.cuh\"\nnamespace jitstep::rules::",
      name, " {\nstruct Total { real sum; };\nstruct Reductions {\n  ", op, "<", domain,
      ", 1, Total> total;\n};\nstruct Rule {\n",
      "  KHD static Reals<1> terms(Of<Total>, const auto& e, const auto&) { return {e.g}; }\n",
      "  KHD static Total finalize(Of<Total>, const Totals<1>& sum, int64, const auto&) {\n",
      "    return {static_cast<real>(sum[0])};\n  }\n",
      "  KHD static void update_param(auto& e, const auto& c) { e.p = c.total.sum; }\n};\n}\n");
}

std::string probe(const std::string& domain) {
  std::string name = "probe_" + domain;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  const auto folder =
      std::filesystem::temp_directory_path() / ("jitstep_probe_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const auto path = folder / (name + ".cuh");
  std::ofstream(path) << probe_text(name, domain);
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  jit::default_catalog().load_rule(path);
  std::filesystem::remove_all(folder);
  return name;
}

// A second implementation of the definition.
double tree(std::vector<float> x) {
  x.resize((x.size() + 255) / 256 * 256);
  std::vector<double> nodes;
  for (std::size_t leaf = 0; leaf < x.size(); leaf += 256) {
    for (std::size_t s = 128; s >= 1; s /= 2)
      for (std::size_t i = 0; i < s; ++i) x[leaf + i] += x[leaf + i + s];
    nodes.push_back(x[leaf]);
  }
  while (nodes.size() > 1) {
    if (nodes.size() % 2) nodes.push_back(0);
    for (std::size_t j = 0; j < nodes.size() / 2; ++j) nodes[j] = nodes[2 * j] + nodes[2 * j + 1];
    nodes.resize(nodes.size() / 2);
  }
  return nodes[0] + 0.0;
}

using Index = std::vector<std::int64_t>;

// The entry of an index, by the meaning of the domain's name.
Index entry_of_index(const std::string& domain, const Index& at) {
  const std::size_t dims = at.size();
  if (domain == "first") return dims < 2 ? Index{} : Index{at[0]};
  if (domain == "rows") return {at.begin(), at.end() - 1};
  if (domain == "columns") {
    Index entry = at;
    if (dims >= 2) entry.erase(entry.end() - 2);
    return entry;
  }
  if (domain == "matrices") return dims < 2 ? Index{} : Index{at.begin(), at.end() - 2};
  if (domain == "axis<1>") return dims < 2 ? Index{} : Index{at[1]};
  return {};  // tensor
}

class Sums : public testing::TestWithParam<std::string> {};

std::vector<float> run(jit::Backend& backend, const jit::Plan& plan, const KernelConfig& config,
                       const jit::Shape& shape, const std::vector<float>& g) {
  std::vector<float> p(g.size());
  jit::StepTensor tensor;
  tensor.p = p.data();
  tensor.shape = shape;
  tensor.g_strides = shape.strides;
  HyperParams set{};
  set.hyper[0] = 1;  // grad_scale
  set.t = 1;
  jit::Step(backend, {{plan, {tensor}, config}}).run({{.g = g.data()}}, {set});
  return p;
}

TEST_P(Sums, FollowTheDefinition) {
  const jit::Plan plan = jit::resolve(spec_of(probe(GetParam()), ""));
  jit::CpuBackend cpu(jit::default_engine(),
                      [](std::int64_t n, std::int64_t, const auto& body) { body(0, n); });
  EmulatedBackend gpu(jit::default_engine(), 3, BlockOrder::kReverse, LaneOrder::kReverse);
  for (const Index& sizes : {Index{1},
                             {255},
                             {256},
                             {257},
                             {70000},
                             {5, 600},
                             {600, 5},
                             {3, 4, 300},
                             {2, 300, 3},
                             {2, 3, 5, 40}}) {
    jit::Shape shape{sizes, Index(sizes.size(), 1)};
    for (std::size_t d = sizes.size(); d-- > 1;) shape.strides[d - 1] = shape.strides[d] * sizes[d];
    std::vector<float> g(static_cast<std::size_t>(shape.elements()));
    for (std::size_t i = 0; i < g.size(); ++i)
      g[i] =
          std::sin(static_cast<float>(i) * 1.7f) * std::pow(10.0f, static_cast<float>(i % 11) - 5);
    std::map<Index, std::vector<float>> members;
    std::vector<Index> entry(g.size());
    for (std::size_t i = 0; i < g.size(); ++i) {
      Index at;
      for (std::size_t d = 0; d < sizes.size(); ++d)
        at.push_back(static_cast<std::int64_t>(i) / shape.strides[d] % sizes[d]);
      entry[i] = entry_of_index(GetParam(), at);
      members[entry[i]].push_back(g[i]);
    }
    std::map<Index, float> expected;
    for (const auto& [name, values] : members) expected[name] = static_cast<float>(tree(values));
    const auto on_cpu =
        run(cpu, plan, jit::default_kernel_config(plan, jit::Target::cpu()), shape, g);
    const auto on_gpu = run(gpu, plan, KernelConfig{128, 32, 4, 8}, shape, g);
    for (std::size_t i = 0; i < g.size(); ++i) {
      ASSERT_EQ(on_cpu[i], expected[entry[i]]) << "size " << g.size() << ", element " << i;
      ASSERT_EQ(on_gpu[i], expected[entry[i]]) << "size " << g.size() << ", element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Domains, Sums, testing::Values("tensor", "first", "rows", "columns", "matrices", "axis<1>"),
    [](const auto& name) { return name.param == "axis<1>" ? std::string("axis_1") : name.param; });

// ---- several tensors ----------------------------------------------------------------------------

// Each tensor's first element after a step of the probe, on the CPU and under emulation.
class Probe {
 public:
  explicit Probe(const std::string& domain, const std::string& op = "Sum")
      : own_({{"rules/probe.cuh", probe_text("probe", domain, op)}}) {}

  void expect(const std::vector<std::vector<std::int64_t>>& sizes,
              const std::vector<std::vector<float>>& g,
              const std::function<void(const std::vector<std::vector<float>>&)>& check) {
    const jit::OptionValues options("probe", own_.catalog);
    jit::CpuBackend cpu(own_.engine);
    EmulatedBackend gpu(own_.engine, 3, BlockOrder::kReverse, LaneOrder::kReverse);
    for (jit::Backend* backend : std::initializer_list<jit::Backend*>{&cpu, &gpu}) {
      PlainSteps<float> steps(own_, *backend, plain_spec(options), options, sizes);
      steps.g = g;
      steps.step(1);
      check(steps.p);
    }
  }

 private:
  OwnTemplates own_;
};

// More tensors than a leaf of ids holds, of many sizes and magnitudes. One tensor has few enough partial sums for a
// warp, and another has too many. Large numbers cancel out there, so that the order of additions matters.
TEST(SumsOverAll, FollowTheDefinition) {
  std::vector<Index> sizes;
  std::vector<std::vector<float>> g;
  std::vector<float> roots;
  for (int id = 0; id < 300; ++id) {
    const int runs = id == 100   ? 18
                     : id == 200 ? 38
                                 : 0;  // 4096 elements each, for one partial sum
    const int size = runs > 0 ? 4096 * runs : id % 7 == 0 ? 257 + 3 * id : id % 40 + 1;
    sizes.push_back({size});
    g.emplace_back();
    for (int i = 0; i < size; ++i)
      g.back().push_back(std::sin(static_cast<float>(i + 31 * id) * 1.7f) *
                         std::pow(10.0f, static_cast<float>((i + id) % 7) - 3));
    for (int run = 0; run < runs; ++run)
      g.back()[static_cast<std::size_t>(4096 * run)] = run % 2 == 0 ? 0x1p48f : -0x1p48f;
    roots.push_back(static_cast<float>(tree(g.back())));
  }
  const auto expected = static_cast<float>(tree(roots));
  Probe("all").expect(sizes, g, [&](const auto& p) {
    for (const auto& tensor : p) ASSERT_EQ(tensor[0], expected);
  });
}

// A leaf of only -0 sums to -0. The root of the tree adds +0.
TEST(SumsOverATensor, OfMinusZerosArePlusZero) {
  Probe("tensor").expect({{256}, {512}}, {std::vector(256, -0.0f), std::vector(512, -0.0f)},
                         [](const auto& p) {
                           for (const auto& tensor : p) EXPECT_FALSE(std::signbit(tensor[0]));
                         });
}

TEST(SumsOverAll, OfMinusZerosArePlusZero) {
  Probe("all").expect(std::vector(256, Index{256}), std::vector(256, std::vector(256, -0.0f)),
                      [](const auto& p) { EXPECT_FALSE(std::signbit(p[0][0])); });
}

TEST(Maxima, IgnorePaddingAndPropagateANaN) {
  std::vector<float> g;
  for (int i = 0; i < 4 * 300; ++i) g.push_back(-1 - static_cast<float>(i * 17 % 300));
  g[300 + 17] = std::nanf("");
  g[600 + 299] = 5;
  for (int i = 900; i < 1200; ++i) g[i] = -INFINITY;
  Probe("first", "Max").expect({{4, 300}}, {g}, [](const auto& p) {
    EXPECT_EQ(p[0][0], -1);
    EXPECT_TRUE(std::isnan(p[0][300]));
    EXPECT_EQ(p[0][600], 5);
    EXPECT_EQ(p[0][900], -INFINITY);
  });
}

}  // namespace
}  // namespace jitstep::support
