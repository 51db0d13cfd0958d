// In which pass each reduction is computed: by kernels that step together, and where reductions share auxiliary state.
#include "jit/codegen/passes.h"

#include <gtest/gtest.h>

#include "jit/fixtures.h"
#include "jit/user_templates.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/state_storage.h"
#include "jitstep/jit/step.h"

namespace jitstep::jit {
namespace {

using testing::error_of;
using testing::TemporaryFolder;

// Two reductions of one domain that follow a third, one over elements and one over the third's entries. `total` is
// last.
const std::string kChained = R"(#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::chained {
struct Flags {
  bool rows = true;
};
struct Row { real sum; };
struct Elements { real sum; };
struct Entries_ { real sum; };
struct Total { real sum; };
struct Reductions {
  Sum<rows, 1, Row> row;                                 // if rows
  Sum<matrices, 1, Elements> elements;                   // after: row
  Sum<matrices, 1, Entries_, Entries<rows, Row>> entries;  // if rows
  Sum<all, 1, Total> total;                              // after: row
};
MEMORY
template <Flags F>
struct Rule {
  KHD static Reals<1> terms(Of<Row>, const auto& e, const auto&) { return {e.g}; }
  KHD static Row finalize(Of<Row>, const Totals<1>& sum, int64, const auto&) { return {static_cast<real>(sum[0])}; }
  KHD static Reals<1> terms(Of<Elements>, const auto& e, const auto&) { return {e.g * e.g}; }
  KHD static Elements finalize(Of<Elements>, const Totals<1>& sum, int64, const auto& ADVANCE_ELEMENTS
  KHD static Reals<1> terms(Of<Entries_>, const Row& row, const auto&) { return {row.sum}; }
  KHD static Entries_ finalize(Of<Entries_>, const Totals<1>& sum, int64, const auto& ADVANCE_ENTRIES
  KHD static Reals<1> terms(Of<Total>, const auto& e, const auto&) { return {e.g}; }
  KHD static Total finalize(Of<Total>, const Totals<1>& sum, int64, const auto&) { return {static_cast<real>(sum[0])}; }
  KHD static void update_param(auto& e, const auto& c) { e.p = c.total.sum; }
};
}
)";

std::string with(std::string text, const std::string& mark, const std::string& instead) {
  return text.replace(text.find(mark), mark.size(), instead);
}

std::string chained(bool memory) {
  const std::string left = "return {static_cast<real>(sum[0])}; }";
  std::string rule =
      with(kChained, "MEMORY", memory ? "struct AuxState {\n  Entry<matrices> x;\n};" : "");
  rule = with(rule, "ADVANCE_ELEMENTS",
              memory ? ", AuxState& m) { m.x.next = m.x.prev + static_cast<real>(sum[0]); " + left
                     : ") { " + left);
  return with(rule, "ADVANCE_ENTRIES",
              memory
                  ? ", AuxState& m) { m.x.next = 2 * m.x.next + static_cast<real>(sum[0]); " + left
                  : ") { " + left);
}

class PassesTest : public ::testing::Test {
 protected:
  void load(const std::string& rule) {
    testing::write_file(folder / "chained.cuh", rule);
    catalog.load_rule(folder / "chained.cuh");
  }
  static std::vector<int> passes(const Plan& plan) {
    std::vector<int> out;
    for (const auto& r : plan.reductions)
      if (r.component == kRuleComponent) out.push_back(r.pass);
    return out;
  }

  TemporaryFolder folder;
  Engine engine{testing::settings_with_cache(folder.path())};
  Catalog catalog{engine.templates()};
};

TEST_F(PassesTest, ReductionsOfOneDomainShareAPassUnlessTheyUpdateTheSameAuxState) {
  load(chained(false));
  EXPECT_EQ(passes(resolve({.rule = "chained"}, catalog)), (std::vector<int>{0, 1, 1, 1}));
  TemplateStore other;
  Catalog remembering(other);
  testing::write_file(folder / "chained.cuh", chained(true));
  remembering.load_rule(folder / "chained.cuh");
  EXPECT_EQ(passes(resolve({.rule = "chained"}, remembering)), (std::vector<int>{0, 1, 2, 1}));
}

TEST_F(PassesTest, ReductionsUpdateAuxStateOfTheirDomainInDeclarationOrder) {
  load(chained(true));
  const OptionValues options("chained", catalog);
  const Plan plan = resolve(options, {"fp32"});
  CpuBackend cpu(engine);
  const StateStorage state(cpu, plan, options, {40, 3, 5});
  std::vector<float> p(600), g(600);
  for (int i = 0; i < 600; ++i) g[i] = static_cast<float>(i % 13 - 4);
  const StepTensor tensor = state.tensor(p.data());
  Step step(cpu, {{plan, {tensor}}});
  std::vector<float> expected(40);
  for (int t = 1; t <= 3; ++t) {
    step.run({{.g = g.data()}}, {plan.at_step(options, t)});
    for (int matrix = 0; matrix < 40; ++matrix) {
      float squares = 0, sum = 0;
      for (int i = 15 * matrix; i < 15 * matrix + 15; ++i) squares += g[i] * g[i], sum += g[i];
      expected[matrix] = 2 * (expected[matrix] + squares) + sum;
      EXPECT_EQ(static_cast<float*>(tensor.aux_state[0][t & 1])[matrix], expected[matrix]) << t;
    }
  }
}

// The passes of a kernel's reductions by name. The name of the gradient or of a slot comes first if the reduction is
// its own.
std::map<std::string, int> passes_by_name(const Plan& plan) {
  std::map<std::string, int> passes;
  for (const ResolvedReduction& r : plan.reductions) {
    std::string of = r.component == kGradientComponent ? "g." : "";
    if (r.component >= kFirstCodecComponent)
      of = plan.rule().slots[static_cast<std::size_t>(r.component - kFirstCodecComponent)].name +
           ".";
    if (r.active()) passes[of + r.name] = r.pass;
  }
  return passes;
}

TEST_F(PassesTest, SumsOverNewSlotsWaitForCodecsWithoutCodes) {
  using Passes = std::map<std::string, int>;
  KernelSpec spec{.rule = "adamw", .flags = {{"amsgrad", true}, {"clipped", true}}};
  spec.state.slots = {CodecChoice{"int4"}, CodecChoice{"int4"}, CodecChoice{"fp32"}};
  EXPECT_EQ(passes_by_name(resolve(spec, catalog)), (Passes{{"clip", 0}}));
  spec.state.slots[1] = CodecChoice{"factored"};
  EXPECT_EQ(passes_by_name(resolve(spec, catalog)),
            (Passes{{"v.of_row", 0}, {"v.of_column", 0}, {"v.of_rows", 1}, {"clip", 2}}));
  spec.gradient_flags = {{"clipped", true}};
  EXPECT_EQ(
      passes_by_name(resolve(spec, catalog)),
      (Passes{{"g.clip", 0}, {"v.of_row", 1}, {"v.of_column", 1}, {"v.of_rows", 2}, {"clip", 3}}));
}

// nvlamb's global norm feeds `update_state`. Its trust ratios are computed from the new slots.
TEST_F(PassesTest, SumsThatUpdateStateReadsWaitForNoCodec) {
  const KernelSpec spec{.rule = "nvlamb",
                        .state = {{CodecChoice{"int4"}, CodecChoice{"factored"}}}};
  const auto passes = passes_by_name(resolve(spec, catalog));
  EXPECT_EQ(passes.at("v.of_row"), resolve(spec, catalog).slots_known);
  EXPECT_EQ(passes.at("v.of_row"), 1);
  EXPECT_EQ(passes.at("trust"), 3);
}

constexpr const char* kConditional = R"(// A probe.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::chained {
struct Flags {
  bool middle = true;
};
struct Slots {
  Signed m;
};
struct First { real x; };
struct Middle { real x; };
struct Last { real x; };
struct Reductions {
  Sum<all, 1, First> first;      // update_state
  Sum<tensor, 1, Middle> middle;  // if middle; after: first
  Sum<tensor, 1, Last> last;      // after: middle
};
template <Flags F>
struct Rule {};
}
)";

TEST_F(PassesTest, AReductionComesAfterThoseBeforeAnExcludedOne) {
  using Passes = std::map<std::string, int>;
  load(kConditional);
  KernelSpec spec{.rule = "chained", .flags = {{"middle", true}}, .state = {{CodecChoice{"fp32"}}}};
  EXPECT_EQ(passes_by_name(resolve(spec, catalog)),
            (Passes{{"first", 0}, {"middle", 1}, {"last", 2}}));
  spec.flags = {{"middle", false}};
  EXPECT_EQ(passes_by_name(resolve(spec, catalog)), (Passes{{"first", 0}, {"last", 1}}));
}

constexpr const char* kTransformed = R"(// A probe.   host transform: halved
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::chained {
struct Slots {
  Signed m;
  NonNegative v;  // after: transformed
};
struct Before { real x; };
struct Read { real x; };
struct Free { real x; };
struct Reductions {
  Sum<tensor, 1, Before> before;
  Sum<rows, 1, Read> read;    // after: transformed; update_state
  Sum<tensor, 1, Free> free;  // after: transformed
};
struct Rule {};
}
)";

TEST_F(PassesTest, ATransformComesAfterAllThatDoesNotReadItsResult) {
  using Passes = std::map<std::string, int>;
  load(kTransformed);
  KernelSpec spec{.rule = "chained", .state = {{CodecChoice{"int4"}, CodecChoice{"int4"}}}};
  Plan plan = resolve(spec, catalog);
  EXPECT_EQ(passes_by_name(plan), (Passes{{"before", 0}, {"read", 1}, {"free", 1}}));
  EXPECT_EQ(plan.slots_known, 0);
  EXPECT_EQ(plan.transform_passes, std::vector<int>{1});
  EXPECT_EQ(plan.slots_known_after, 2);
  EXPECT_EQ(plan.passes, 2);

  spec.state.slots = {CodecChoice{"int4_rank1"}, CodecChoice{"factored"}};
  spec.gradient_flags = {{"clipped", true}};
  plan = resolve(spec, catalog);
  const Passes passes = passes_by_name(plan);
  EXPECT_EQ(passes.at("before"), 1) << "after the gradient's norm";
  EXPECT_EQ(plan.transform_passes, std::vector<int>{2}) << "after the codec of m, too";
  EXPECT_EQ(passes.at("read"), 2);
  EXPECT_EQ(passes.at("v.of_row"), 3);
  EXPECT_EQ(passes.at("v.of_rows"), 4);
  EXPECT_EQ(passes.at("free"), 5) << "it may read v, whose stored values are then known";
  for (const ResolvedReduction& r : plan.reductions)
    EXPECT_TRUE(r.component != codec_component(0) || r.pass < plan.transform_passes[0]) << r.name;
}

TEST_F(PassesTest, ARuleWithoutATransformHasNoPassForIt) {
  EXPECT_TRUE(resolve(OptionValues("adamw", catalog), {"fp32"}).transform_passes.empty());
  EXPECT_EQ(resolve(OptionValues("muon", catalog), {"fp32"}).transform_passes, std::vector<int>{0});
}

constexpr const char* kSeveralTransforms = R"(// Three transforms.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::chained {
struct Transforms {
  real first;   // host: one
  real second;  // host: two
  real third;   // host: one
};
struct Slots {
  Signed m;
  NonNegative v;  // after: second
};
struct Early { real x; };
struct Middle { real x; };
struct Read { real x; };
struct Late { real x; };
struct Reductions {
  Sum<tensor, 1, Early> early;
  Sum<tensor, 1, Middle> middle;  // after: first
  Sum<tensor, 1, Read> read;      // after: second; update_state
  Sum<tensor, 1, Late> late;      // after: third
};
struct Rule {};
}
)";

TEST_F(PassesTest, EachTransformComesAfterTheSumsAndSlotsThatItMayRead) {
  load(kSeveralTransforms);
  const Plan plan = resolve(
      {.rule = "chained", .state = {{CodecChoice{"fp32"}, CodecChoice{"int4_rank1"}}}}, catalog);
  const std::map<std::string, int> passes = passes_by_name(plan);
  EXPECT_EQ(passes.at("early"), 0);
  EXPECT_EQ(passes.at("middle"), 1);
  EXPECT_EQ(passes.at("read"), 2);
  EXPECT_EQ(plan.state_section, 2);
  EXPECT_EQ(plan.slots_known_after, 3);
  EXPECT_EQ(passes.at("v.along0"), 3);
  EXPECT_EQ(plan.transform_passes, (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(passes.at("late"), 4);
  std::vector<int> sections;
  for (int pass = 0; pass <= plan.passes; ++pass) sections.push_back(plan.section_of(pass));
  EXPECT_EQ(sections, (std::vector<int>{0, 1, 2, 2, 3, 3}));
}

TEST_F(PassesTest, SignedSlotsUseAnotherCodecThanFactored) {
  const Plan plan = resolve(
      {.rule = "adam", .state = {{CodecChoice{"factored"}, CodecChoice{"factored"}, {}}}}, catalog);
  EXPECT_EQ(plan.spec.state.slots[0], complete({"int4"}, catalog));
  EXPECT_EQ(plan.spec.state.slots[1]->name, "factored");
}

TEST_F(PassesTest, KernelsComputeASharedSumInTheSamePass) {
  load(chained(false));
  std::vector<Plan> plans = {resolve({.rule = "chained"}, catalog),
                             resolve({.rule = "chained", .flags = {{"rows", false}}}, catalog)};
  EXPECT_EQ(passes(plans[1]), (std::vector<int>{-1, 0, -1, 0}));
  share_sums(plans);
  EXPECT_EQ(passes(plans[0]), (std::vector<int>{0, 1, 1, 1}));
  EXPECT_EQ(passes(plans[1]), (std::vector<int>{-1, 0, -1, 1}));
  EXPECT_EQ(plans[1].passes, 2);
}

TEST_F(PassesTest, IfOneKernelClipsAllDoAndNoOtherFlagChanges) {
  KernelSpec clipped{.rule = "lamb", .state = {{CodecChoice{"fp32"}, CodecChoice{"fp32"}}}};
  const KernelSpec plain = clipped;
  clipped.gradient_flags = {{"clipped", true}, {"scaled", true}, {"maximize", true}};
  std::vector<Plan> plans = {resolve(plain, catalog), resolve(clipped, catalog)};
  share_sums(plans);
  const NamedValues& flags = plans[0].spec.gradient_flags;
  EXPECT_EQ(flags.at("clipped"), Value(true));
  for (const char* left : {"scaled", "maximize", "centralized"})
    EXPECT_EQ(flags.at(left), Value(false)) << left;
  EXPECT_EQ(sums_of(plans[0]), sums_of(plans[1]));
  EXPECT_EQ(plans[1].spec, resolve(clipped, catalog).spec);
  std::vector<Plan> alone = {resolve(plain, catalog), resolve(plain, catalog)};
  share_sums(alone);
  EXPECT_EQ(alone[0].spec, resolve(plain, catalog).spec);
}

TEST_F(PassesTest, AnInitialValueOfACodecIsOneOfTheCodecsNumbers) {
  std::string codec = testing::kNormedText;
  codec = with(codec, "struct Norm {",
               "struct Hyper {\n  double lr = 0.25;  // >= 0\n};\nstruct Norm {");
  codec = with(codec, "initial: 1", "initial: lr");
  testing::write_file(folder / "normed.cuh", codec);
  catalog.load_codec(folder / "normed.cuh");
  const auto initial = [&](const CodecChoice& choice) {
    const Plan plan =
        resolve({.rule = "sgd", .flags = {{"has_momentum", true}}, .state = {{choice}}}, catalog);
    return plan.aux_state.at(0).initial;
  };
  EXPECT_EQ(initial({"normed"}).number, 0.25);  // not the rule's lr
  EXPECT_EQ(initial({"normed"}).option, "");
  EXPECT_EQ(initial({"normed", {{"lr", 2.0}}}).number, 2);
  EXPECT_EQ(initial({"normed", {{"lr", "weight_decay"}}}).option, "weight_decay");
}

}  // namespace
}  // namespace jitstep::jit
