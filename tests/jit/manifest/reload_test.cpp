// A user changes a file and loads it again. Optimizers made afterwards use the new version. Earlier ones use the old
// version, also for kernels compiled later.
#include <gtest/gtest.h>

#include "jit/base/text.h"
#include "jit/fixtures.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/state_storage.h"
#include "jitstep/jit/step.h"

namespace jitstep::jit {
namespace {

// Adds `step` to each parameter. `option` names an option of the rule.
std::string moving(const std::string& step, const std::string& option = "lr") {
  return str_cat("#pragma once\n#include \"../lang/contract.cuh\"\n#include \"../lang/mine.cuh\"\n",
                 "namespace jitstep::rules::moving {\nstruct Hyper {\n  double ", option,
                 " = 1;\n};\nstruct Slots {\n  Signed m;\n};\nstruct Rule {\n",
                 "  KHD static void update_state(auto& e, const auto&) { e.m.next = real(1); }\n",
                 "  KHD static void update_param(auto& e, const auto&) { e.p += real(", step,
                 ") * my_unit(); }\n", "};\n}\n");
}

// State that is always `value` from the second step on.
std::string constant(const std::string& value) {
  return str_cat(
      "#pragma once\n#include \"../lang/contract.cuh\"\nnamespace jitstep::codecs::constant {\n",
      "using Code = uint8;\ntemplate <class Sign>\nstruct Codec {\n",
      "  using Code = constant::Code;\n  using Meta = NoMeta;\n",
      "  static constexpr int block = 1;\n  static constexpr bool random = false;\n",
      "  KHD static real decode(Code, const Meta&) { return real(", value, "); }\n",
      "  KHD static Code encode(real, const Meta&, uint32) { return 0; }\n};\n}\n");
}

class Reload : public ::testing::Test {
 protected:
  void SetUp() override { set_unit(1); }

  // A factor that every rule here reads from an included file.
  void set_unit(int unit) {
    engine_.templates().add(
        "lang/mine.cuh", str_cat("#pragma once\nnamespace jitstep {\nKHD real my_unit() { return ",
                                 unit, "; }\n}\n"));
  }

  const Manifest& load_rule(const std::string& content) {
    testing::write_file(folder_ / "moving.cuh", content);
    return catalog_.load_rule(folder_ / "moving.cuh");
  }
  const Manifest& load_codec(const std::string& value) {
    testing::write_file(folder_ / "constant.cuh", constant(value));
    return catalog_.load_codec(folder_ / "constant.cuh");
  }

  OptionValues options() { return OptionValues("moving", catalog_); }
  Plan plan(const OptionValues& values, const std::string& codec = "fp32") {
    return resolve(values, {codec});
  }

  // One element of a parameter of zeros after one step, compiled now.
  float stepped(const Plan& plan, const OptionValues& values) {
    CpuBackend cpu(engine_);
    std::vector<float> p(3), g(3);
    const StateStorage state(cpu, plan, values, {3});
    Step step(cpu, {{plan, {state.tensor(p.data())}}});
    step.run({{.g = g.data()}}, {plan.at_step(values, 1)});
    return p[0];
  }

  testing::TemporaryFolder folder_;
  Engine engine_{testing::settings_with_nvrtc("")};
  Catalog catalog_{engine_.templates()};
};

TEST_F(Reload, AffectsOnlyOptimizersMadeAfterIt) {
  const Manifest& first = load_rule(moving("1"));
  const OptionValues before = options();
  const Plan old = plan(before);
  const Manifest& second = load_rule(moving("-2", "rate"));
  EXPECT_NE(&first, &second);
  EXPECT_EQ(&catalog_.rule("moving"), &second);
  EXPECT_EQ(first.hyper[0].name, "lr") << "earlier optimizers still use it";
  EXPECT_EQ(second.hyper[0].name, "rate");
  EXPECT_EQ(second.name, "moving");
  const OptionValues after = options();
  EXPECT_EQ(stepped(plan(after), after), -2);
  EXPECT_EQ(stepped(old, before), 1) << "compiled after the change";
  EXPECT_EQ(stepped(plan(before), before), 1) << "resolved and compiled after it";
  EXPECT_EQ(stepped(resolve(old.spec, *old.catalog), before), 1);
  EXPECT_NE(testing::error_of([&] { old.at_step(after, 1); }).find("are not those of the kernel"),
            std::string::npos);
}

TEST_F(Reload, OfTheSameTextChangesNothing) {
  const Manifest& first = load_rule(moving("1"));
  const std::uint64_t version = engine_.templates().version();
  EXPECT_EQ(&load_rule(moving("1")), &first);
  EXPECT_EQ(engine_.templates().version(), version);
  const auto before = catalog_.snapshot();
  EXPECT_EQ(catalog_.snapshot(), before);
  const Manifest& second = load_rule(moving("2"));
  const auto after = catalog_.snapshot();
  EXPECT_NE(after, before);
  EXPECT_EQ(&load_rule(moving("1")), &first) << "back to the first text: the first version";
  EXPECT_EQ(&catalog_.rule("moving"), &first);
  EXPECT_EQ(&before->rule("moving"), &first);
  EXPECT_EQ(&after->rule("moving"), &second);
  EXPECT_EQ(after->snapshot(), after);
  EXPECT_EQ(catalog_.names(Manifest::Kind::rule), Catalog(engine_.templates()).names(first.kind));
}

TEST_F(Reload, DetectsAChangedInclude) {
  const Manifest& first = load_rule(moving("1"));
  const OptionValues before = options();
  set_unit(5);
  EXPECT_EQ(stepped(plan(before), before), 1) << "not loaded again";
  const Manifest& second = load_rule(moving("1"));
  EXPECT_NE(&first, &second);
  const OptionValues after = options();
  EXPECT_EQ(stepped(plan(after), after), 5);
  EXPECT_EQ(stepped(plan(before), before), 1);
}

TEST_F(Reload, OfACodecDoesNotChangeEarlierPlansAndOptions) {
  load_rule(moving("e.m.prev"));
  load_codec("3");
  OptionValues before = options();
  const Plan old = plan(before, "constant");
  load_codec("7");
  const OptionValues after = options();
  const auto second_step = [&](const Plan& plan, const OptionValues& values) {
    CpuBackend cpu(engine_);
    std::vector<float> p(3), g(3);
    const StateStorage state(cpu, plan, values, {3});
    Step step(cpu, {{plan, {state.tensor(p.data())}}});
    for (int t = 1; t <= 2; ++t) step.run({{.g = g.data()}}, {plan.at_step(values, t)});
    return p[0];
  };
  EXPECT_EQ(second_step(plan(after, "constant"), after), 7);
  EXPECT_EQ(second_step(plan(before, "constant"), before), 3);
  EXPECT_EQ(second_step(old, before), 3);
  EXPECT_TRUE(plan(after).is_same_kernel(plan(before))) << "it has no slot of that codec";
  EXPECT_FALSE(plan(after, "constant").is_same_kernel(old));
}

TEST_F(Reload, OfAnInvalidFileChangesNothing) {
  const Manifest& first = load_rule(moving("1"));
  const auto before = catalog_.snapshot();
  EXPECT_THROW(load_rule("namespace jitstep::rules::moving {\nstruct Hyper {\n"), Error);
  EXPECT_EQ(&catalog_.rule("moving"), &first);
  EXPECT_EQ(catalog_.snapshot(), before);
}

// The catalog reads a folder of templates when a rule is first requested. `load_rule` reads its file again.
TEST_F(Reload, DetectsAChangedFileInAFolderOfTemplates) {
  const std::string path = folder_ / "rules/moving.cuh", unit = folder_ / "lang/mine.cuh";
  const auto write_unit = [&](int x) {
    testing::write_file(
        unit,
        str_cat("#pragma once\nnamespace jitstep {\nKHD real my_unit() { return ", x, "; }\n}\n"));
  };
  write_unit(1);
  testing::write_file(path, moving("1"));
  Settings settings = testing::settings_with_nvrtc("");
  settings.templates = folder_.path();
  Engine engine(settings);
  Catalog catalog(engine.templates());
  const Manifest& first = catalog.rule("moving");
  testing::write_file(path, moving("2"));
  write_unit(10);
  EXPECT_EQ(&catalog.rule("moving"), &first);
  const auto preprocessed = [&](const Manifest& rule) {
    return engine.preprocessed_text(str_cat("#include \"", rule.source, "\"\n"), "unit");
  };
  EXPECT_NE(preprocessed(first).find("real(1)"), std::string::npos);
  EXPECT_NE(preprocessed(first).find("return 1;"), std::string::npos);
  const Manifest& second = catalog.load_rule(path);
  EXPECT_EQ(&catalog.rule("moving"), &second);
  EXPECT_NE(preprocessed(second).find("real(2)"), std::string::npos);
  EXPECT_NE(preprocessed(second).find("return 10;"), std::string::npos);
  EXPECT_NE(preprocessed(first).find("return 1;"), std::string::npos);
}

}  // namespace
}  // namespace jitstep::jit
