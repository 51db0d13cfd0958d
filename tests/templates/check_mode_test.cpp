// JITSTEP_CHECK=1 runs a rule once with every unset value poisoned, and names what the rule does not set before its
// first step. Without it, the compiler detects only part of these mistakes.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "jit/base/text.h"
#include "jit/codegen/unit.h"
#include "jit/compiler/host_compiler.h"
#include "jit/compiler/nvrtc_compiler.h"
#include "jit/fixtures.h"
#include "jit/step/check_rule_contract.h"
#include "jit/user_templates.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/state_storage.h"
#include "jitstep/jit/step.h"
#include "support/combinations.h"
#include "support/compilers.h"

namespace jitstep::jit {
namespace {

// A rule that uses every part of the contract: a slot with a condition, two sums, auxiliary state of two domains.
const std::string kRule = R"(// modes: train, eval
// host transform: halved
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::mine {
struct Hyper {
  double lr = 1e-3;
};
struct Flags {
  bool wide = false;
};
struct Slots {
  Signed m;
  NonNegative v;  // if wide
};
struct Scalars { real lr, decay; };
struct Row { real mean; };
struct Whole { real norm; double wide; };
struct Reductions {
  Sum<rows, 1, Row> row;       // update_state
  Sum<tensor, 1, Whole> all_of;  // after: row
};
struct AuxState {
  Entry<rows> row;
  Entry<tensor> norm;
};
template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64, AuxState& m) {
    Scalars s;
    s.lr = static_cast<real>(h.lr);
    s.decay = real(0.5);
    return s;
  }
  KHD static Reals<1> terms(Of<Row>, const auto& e, const auto&) { return {e.g * e.g}; }
  KHD static Row finalize(Of<Row>, const Totals<1>& sum, int64, const auto&, AuxState& m) {
    m.row.next = static_cast<real>(sum[0]);
    return {m.row.next};
  }
  KHD static void update_state(auto& e, const auto& c) {
    e.m.next = c.decay * e.m.prev + e.g * c.row.mean;
    if (F.wide) e.v.next = e.v.prev + e.g * e.g;
  }
  KHD static Reals<1> terms(Of<Whole>, const auto& e, const auto&) { return {e.m.next}; }
  KHD static Whole finalize(Of<Whole>, const Totals<1>& sum, int64, const auto& c, AuxState& m) {
    m.norm.next = static_cast<real>(sum[0]);
    Whole w;
    w.norm = m.norm.next + 1;
    w.wide = sum[0];
    return w;
  }
  KHD static void update_param(auto& e, const auto& c) {
    const real size = F.wide ? e.v.next : real(1);
    e.p -= c.lr * e.m.next / (c.all_of.norm + size) + e.transformed;
  }
  KHD static real transformed(const auto& e, const auto& c) { return e.m.next * c.decay; }
  KHD static void eval(auto& e, const auto& c) { e.p += c.lr * e.m.prev; }
  KHD static void train(auto& e, const auto& c) { e.p -= c.decay * e.m.prev; }
};
}
)";

Settings checking() {
  Settings settings = testing::settings_with_nvrtc("");
  settings.check = true;
  settings.cxx.clear();  // without the options of sanitizers, which change how values are set
  return settings;
}

class CheckMode : public ::testing::Test {
 protected:
  Plan plan_of(const std::string& rule, const NamedValues& flags = {}) {
    engine_.templates().add("rules/mine.cuh", rule);
    catalogs_.push_back(std::make_unique<Catalog>(engine_.templates()));
    KernelSpec spec{.rule = "mine", .flags = flags};
    spec.state.slots.assign(2, CodecChoice{"fp32"});
    return resolve(spec, *catalogs_.back());
  }

  // The plan of the rule with `wrong` instead of `right`.
  Plan plan_with(const std::string& right, const std::string& wrong,
                 const NamedValues& flags = {}) {
    std::string rule = kRule;
    EXPECT_NE(rule.find(right), rule.npos) << right;
    rule.replace(rule.find(right), right.size(), wrong);
    return plan_of(rule, flags);
  }

  std::string error_for(const std::string& right, const std::string& wrong,
                        const NamedValues& flags = {}) {
    const Plan plan = plan_with(right, wrong, flags);
    return testing::error_of([&] { check_rule_contract(plan, engine_); });
  }

  Engine engine_{checking()};
  std::vector<std::unique_ptr<Catalog>> catalogs_;
};

TEST_F(CheckMode, NamesValuesThatARuleDoesNotSet) {
  const std::string unset = ", or computes it from an unset value";
  EXPECT_EQ(error_for("    s.decay = real(0.5);\n", "")
                .find("rules/mine.cuh: `prepare` does not set c.decay"),
            0u);
  EXPECT_EQ(error_for("struct Scalars { real lr, decay; };",
                      "struct Scalars { real lr, decay, lost, a, b, c, d; };")
                .find("rules/mine.cuh: `prepare` does not set c.lost"),
            0u)
      << "too large to be returned in registers";
  EXPECT_EQ(error_for("    if (F.wide) e.v.next = e.v.prev + e.g * e.g;\n", "", {{"wide", true}})
                .find("rules/mine.cuh: `update_state` does not set e.v.next" + unset),
            0u);
  EXPECT_EQ(error_for("c.decay * e.m.prev", "c.decay * e.m.next")
                .find("rules/mine.cuh: `update_state` does not set e.m.next" + unset),
            0u)
      << "read before it is set";
  EXPECT_EQ(error_for("    w.wide = sum[0];\n", ""),
            "rules/mine.cuh: `finalize(Of<Whole>)` does not set c.all_of.wide" + unset +
                " (found by JITSTEP_CHECK)");
}

TEST_F(CheckMode, NamesAuxStateThatIsNeverWritten) {
  EXPECT_EQ(
      error_for("    m.norm.next = static_cast<real>(sum[0]);\n", "")
          .find(
              "rules/mine.cuh: no function writes m.norm.next, so that it keeps its initial value"),
      0u);
  EXPECT_EQ(
      error_for("  Entry<tensor> norm;\n", "  Entry<tensor> norm;\n  Entry<all, double> steps;\n")
          .find("rules/mine.cuh: no function writes m.steps.next"),
      0u);
}

// A rule may write a field after many steps, or when a gradient meets a condition.
TEST_F(CheckMode, AcceptsAuxStateThatIsWrittenUnderAConditionOnly) {
  const std::string norm = "    m.norm.next = static_cast<real>(sum[0]);\n",
                    row = "    m.row.next = static_cast<real>(sum[0]);\n";
  const std::pair<std::string, std::string> edits[] = {
      {norm, "    if (sum[0] > 1e30) m.norm.next = real(1);\n"},
      {norm, "    if (sum[0] > 1e30)\n      m.norm.next\n          /= real(2);\n"},
      {norm, "    real& norm = m.norm.next;\n    if (sum[0] > 1e30) norm = real(1);\n"},
      {norm, "    auto& norm = m.norm;\n    if (sum[0] > 1e30) norm.next = real(1);\n"},
      {row, "    if (sum[0] > 1e30) m.row.next += real(1);\n"}};
  for (const auto& [right, wrong] : edits) {
    const Plan plan = plan_with(right, wrong);
    EXPECT_NO_THROW(check_rule_contract(plan, engine_)) << wrong;
  }
  EXPECT_EQ(error_for(norm, "    if (m.norm.next == real(1) || m.norm.prev > 1) return {};\n")
                .find("rules/mine.cuh: no function writes m.norm.next"),
            0u);
}

// Only a reduction over rows writes a value per row, and `if` may exclude it.
TEST_F(CheckMode, NamesAuxStateOfRowsWhoseReductionIsExcluded) {
  std::string rule = kRule;
  const auto replace = [&](const std::string& right, const std::string& wrong) {
    ASSERT_NE(rule.find(right), rule.npos) << right;
    rule.replace(rule.find(right), right.size(), wrong);
  };
  replace("row;       // update_state", "row;       // update_state; if wide");
  replace("e.g * c.row.mean;", "(F.wide ? e.g * c.row.mean : e.g);");
  EXPECT_NO_THROW(check_rule_contract(plan_of(rule, {{"wide", true}}), engine_));
  EXPECT_EQ(testing::error_of([&] {
              check_rule_contract(plan_of(rule), engine_);
            }).find("rules/mine.cuh: no function writes m.row.next"),
            0u);
}

// A field that nothing writes may hold a constant, such as a number per parameter.
TEST_F(CheckMode, AcceptsAuxStateThatStoresAnOptionPerParameter) {
  std::string rule = kRule;
  const auto put = [&](const std::string& right, const std::string& more) {
    rule.insert(rule.find(right) + right.size(), more);
  };
  put("  double lr = 1e-3;\n", "  List scales = {};\n");
  put("  Entry<tensor> norm;\n",
      "  Entry<tensor> scale;  // initial: scales\n"
      "  Entry<tensor> first;  // initial: lr\n");
  put("    s.decay = real(0.5);\n", "    s.decay += m.scale.prev + m.first.prev;\n");
  const Plan plan = plan_of(rule);
  EXPECT_NO_THROW(check_rule_contract(plan, engine_));
  EXPECT_NE(error_for("  Entry<tensor> norm;\n",
                      "  Entry<tensor> norm;\n  Entry<tensor> one;  // initial: 1\n")
                .find("no function writes m.one.next"),
            std::string::npos);
}

TEST_F(CheckMode, NamesReadsOfInactiveSlots) {
  EXPECT_EQ(error_for("F.wide ? e.v.next : real(1)", "e.v.prev")
                .find("rules/mine.cuh: `update_param` computes e.p from"),
            0u);
  EXPECT_EQ(error_for("F.wide ? e.v.next : real(1)", "e.v.next")
                .find("rules/mine.cuh: `update_param` computes e.p"),
            0u);
  EXPECT_NE(error_for("return {e.m.next}; }", "return {e.v.prev}; }")
                .find("`terms(Of<Whole>)` computes a term from an unset value"),
            std::string::npos);
}

TEST_F(CheckMode, NamesVariablesThatAreNotSetInEachBranch) {
  const std::string unset = "real half; if (e.g > 0) half = real(0.5); ";
  EXPECT_EQ(
      error_for("    e.p -= c.lr * e.m.next", "    " + unset + "e.p -= half * c.lr * e.m.next")
          .find("rules/mine.cuh: `update_param` computes e.p from an unset value"),
      0u);
  EXPECT_EQ(error_for("    e.m.next = c.decay", "    " + unset + "e.m.next = half * c.decay")
                .find("rules/mine.cuh: `update_state` does not set e.m.next"),
            0u);
}

// The compiler's pattern in unset variables is as large.
TEST_F(CheckMode, AcceptsALargeConstant) {
  EXPECT_NO_THROW(check_rule_contract(
      plan_with("return {e.m.next};", "return {e.g > 0 ? e.m.next : real(-1e30)};"), engine_));
  EXPECT_NO_THROW(check_rule_contract(
      plan_with("    e.m.next = c.decay", "    e.m.next = real(3e38) + c.decay"), engine_));
}

TEST_F(CheckMode, NamesAFunctionThatWritesTheStateBeforeTheStep) {
  EXPECT_EQ(error_for("    m.norm.next = static_cast",
                      "    m.norm.prev = 0;\n    m.norm.next = static_cast")
                .find("rules/mine.cuh: `finalize(Of<Whole>)` writes m.norm.prev, the value before "
                      "the step. Write m.norm.next"),
            0u);
  EXPECT_EQ(
      error_for("    s.decay = real(0.5);\n", "    s.decay = real(0.5);\n    m.norm.prev = 1;\n")
          .find("rules/mine.cuh: `prepare` writes m.norm.prev"),
      0u);
}

TEST_F(CheckMode, ChecksTheInputOfAHostTransform) {
  EXPECT_EQ(error_for("return e.m.next * c.decay", "return e.v.next * c.decay"),
            "rules/mine.cuh: `transformed` returns an unset value: a slot or a result that `if` "
            "excludes, or a variable (found by JITSTEP_CHECK)");
}

TEST_F(CheckMode, ChecksTheModesOfARuleToo) {
  const std::string what =
      "computes e.p from an unset value: a slot or a result that `if` excludes, or a variable "
      "(found by JITSTEP_CHECK)";
  EXPECT_EQ(error_for("e.p += c.lr * e.m.prev", "e.p += c.lr * e.v.prev"),
            "rules/mine.cuh: `eval` " + what);
  EXPECT_EQ(error_for("e.p -= c.decay * e.m.prev", "e.p -= e.v.prev"),
            "rules/mine.cuh: `train` " + what);
}

TEST_F(CheckMode, NamesAuxStateWrittenByTheWrongFunction) {
  EXPECT_EQ(
      error_for("    m.norm.next = static_cast<real>(sum[0]);\n",
                "    m.norm.next = m.row.next = static_cast<real>(sum[0]);\n"),
      "rules/mine.cuh: `finalize(Of<Whole>)` writes m.row.next, auxiliary state of another domain, "
      "which is not stored (found by JITSTEP_CHECK)");
  EXPECT_NE(error_for("    s.decay = real(0.5);\n", "    s.decay = m.row.next = real(0.5);\n")
                .find("`prepare` writes m.row.next, auxiliary state of another domain"),
            std::string::npos);
}

TEST_F(CheckMode, AcceptsARuleThatFulfillsItsContract) {
  for (const bool wide : {false, true}) {
    const Plan plan = plan_of(kRule, {{"wide", wide}});
    EXPECT_NO_THROW(check_rule_contract(plan, engine_));
  }
}

// A rule reads and writes the same fields in every format, so that one format is enough.
bool has_plain_formats(const KernelSpec& spec) {
  return spec.state.weights == "native" &&
         std::all_of(spec.state.slots.begin(), spec.state.slots.end(),
                     [](const auto& slot) { return !slot || slot->name == "fp32"; });
}

TEST_F(CheckMode, AcceptsEveryShippedRuleAndThoseOfTheTests) {
  for (const KernelSpec& spec : support::ci_combinations()) {
    if (!has_plain_formats(spec)) continue;
    const Plan plan = resolve(spec);
    EXPECT_NO_THROW(check_rule_contract(plan, engine_)) << plan.name;
  }
  for (const auto& [name, content] : {std::pair{"everything", testing::kEverythingText},
                                      std::pair{"remembering", testing::kRememberingText}})
    engine_.templates().add(str_cat("rules/", name, ".cuh"), content);
  const Catalog catalog(engine_.templates());
  for (const char* name : {"everything", "remembering"}) {
    KernelSpec spec{.rule = name};
    spec.state.slots.assign(catalog.rule(name).slots.size(), CodecChoice{"fp32"});
    const Plan plan = resolve(spec, catalog);
    EXPECT_NO_THROW(check_rule_contract(plan, engine_)) << name;
  }
}

TEST_F(CheckMode, RunsBeforeTheFirstStepIfTheEngineChecks) {
  std::string rule = kRule;
  rule.replace(rule.find("    s.decay = real(0.5);\n"), 25, "\n");
  const Plan plan = plan_of(rule);
  CpuBackend checks(engine_);
  EXPECT_THROW(Step(checks, {{plan, {}}}), Error);
  Settings settings = checking();
  settings.check = false;
  Engine other(settings);
  CpuBackend does_not_check(other);
  EXPECT_EQ(does_not_check.contract_checker(), nullptr);
  EXPECT_EQ(checks.contract_checker(), &engine_);
}

// The compiler's message about a kernel says which function a rule lacks. That of the check would name its own files.
TEST_F(CheckMode, RunsAfterTheKernelIsCompiled) {
  std::string rule = kRule;
  rule.replace(rule.find("update_state(auto& e,"), 21, "update_state(auto e,");
  const Plan plan = plan_of(rule);
  CpuBackend checks(engine_);
  const std::string said = testing::error_of([&] { Step(checks, {{plan, {}}}); });
  EXPECT_NE(said.find("it needs 'static void update_state(auto& e"), said.npos) << said;
}

// A back end that runs a rule without checking it.
struct Unchecked : CpuBackend {
  using CpuBackend::CpuBackend;
  Engine* contract_checker() const override { return nullptr; }
};

TEST_F(CheckMode, PoisonsUnsetValuesInKernels) {
  std::string rule = kRule;
  rule.replace(rule.find("    if (F.wide) e.v.next = e.v.prev + e.g * e.g;\n"), 48, "\n");
  const Plan plan = plan_of(rule, {{"wide", true}});
  const OptionValues options(plan.rule(), plan.gradient());
  Unchecked cpu(engine_);
  const StateStorage state(cpu, plan, options, {2, 3});
  std::vector<float> p(6, 1), g(6, 1);
  Step step(cpu, {{plan, {state.tensor(p.data())}}});
  step.run({{.g = g.data()}}, {options.at_step(1)}, [](const auto&) {});
  for (const float x : p) EXPECT_TRUE(std::isnan(x)) << x;
}

// Both kernels have the sum of all gradients. With the numbers of sgd, lookahead_adamw would divide by 0.
TEST_F(CheckMode, PreparesARuleWithTheNumbersOfItsOwnTensorsOnly) {
  CpuBackend cpu(engine_);
  std::vector<float> p(8, 1), g(8, 1);
  std::vector<Batch> batches;
  std::vector<HyperParams> sets;
  std::deque<StateStorage> states;
  for (const char* const rule : {"lookahead_adamw", "sgd"}) {
    OptionValues options(rule);
    options.set("max_grad_norm", 1.0);
    const Plan plan = resolve(options);
    states.emplace_back(cpu, plan, options, std::vector<std::int64_t>{4});
    StepTensor tensor = states.back().tensor(p.data() + 4 * batches.size());
    tensor.id = static_cast<int>(batches.size());
    batches.push_back({plan, {tensor}});
    sets.push_back(options.at_step(1));
  }
  Step step(cpu, batches);
  step.run({{.g = g.data(), .hyper_index = 0}, {.g = g.data() + 4, .hyper_index = 1}}, sets);
  for (const float x : p) EXPECT_LT(x, 1) << "and not NaN";
}

TEST_F(CheckMode, HasItsOwnKernelsInTheCache) {
  HostCompiler host(testing::settings_with_nvrtc("")), host_checks(checking());
  NvrtcCompiler nvrtc(testing::settings_with_nvrtc("")), nvrtc_checks(checking());
  const auto differ = [](Compiler& plain, Compiler& checks, const Target& target) {
    EXPECT_EQ(plain.identity(target).find("JITSTEP_CHECK"), std::string::npos);
    EXPECT_NE(checks.identity(target).find("JITSTEP_CHECK"), std::string::npos);
    EXPECT_EQ(plain.fitness(checks.identity(target), target).rank, 0);
  };
  differ(host, host_checks, Target::cpu());
  differ(nvrtc, nvrtc_checks, Target::cuda(90));
}

// ---- mistakes that the host compiler detects in any mode

// The first line of the error. Empty if there is none.
std::string compiled(const std::string& apply, const std::string& cxx) {
  Settings settings = testing::settings_with_cache("");
  settings.cxx = cxx;
  Engine engine(settings);
  engine.templates().add("rules/mine.cuh",
                         "#pragma once\n#include \"../lang/contract.cuh\"\n"
                         "namespace jitstep::rules::mine {\nstruct Rule {\n"
                         "  KHD static void update_param(auto& e, const auto&) { " +
                             apply + " }\n};\n}\n");
  const Catalog catalog(engine.templates());
  const Plan plan = resolve({.rule = "mine"}, catalog);
  const Unit made = unit(plan, default_kernel_config(plan, Target::cpu()), Target::cpu());
  try {
    engine.build(made.text, made.name, Target::cpu());
  } catch (const CompileError& error) {
    const std::string what = error.what();
    return what.substr(0, what.find('\n'));
  }
  return "";
}

TEST(CpuKernels, RejectDoubleLiteralsAndLanguageExtensions) {
  const std::string advice = "a rule computes in `real`: write real(0.1), or static_cast<real>";
  const std::string vla = "int n = e.g > 0; real x[n]; x[0] = e.g; e.p -= x[0];";
  for (const std::string& cxx : support::gcc_and_clang()) {
    for (const char* apply : {"e.p -= 0.1 * e.g;", "e.p = e.p * (1 - 0.5) - e.g;",
                              "const real x = e.g * 0.1; e.p -= x;"}) {
      const std::string error = compiled(apply, cxx);
      EXPECT_EQ(error.find("rules/mine.cuh:5: "), 0u) << cxx << ": " << error;
      EXPECT_NE(error.find(advice), error.npos) << cxx << ": " << error;
    }
    EXPECT_EQ(compiled(vla, cxx).find("rules/mine.cuh:5: "), 0u) << cxx;
    EXPECT_EQ(compiled("const real half = 0.5; e.p -= half * e.g;", cxx), "") << cxx;
    EXPECT_EQ(compiled("const int n = 3; e.p -= n * e.g;", cxx), "") << cxx;
  }
}

}  // namespace
}  // namespace jitstep::jit
