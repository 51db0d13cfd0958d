// The compilers for CPU and GPU accept the same user files. They reject the others with the same message, at the
// location in the user's file.
#include <gtest/gtest.h>

#include "jit/base/text.h"
#include "jit/codegen/unit.h"
#include "jit/fixtures.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"
#include "support/compilers.h"

namespace jitstep::jit {
namespace {

struct Compiler {
  std::string name;
  Target target;
  std::string cxx = {};
};

// NVRTC and the installed host compilers.
std::vector<Compiler> compilers() {
  std::vector<Compiler> all = {{"NVRTC", Target::cuda(90)}};
  if (!support::gcc().empty()) all.push_back({"gcc", Target::cpu(), support::gcc()});
  if (!support::clang().empty()) all.push_back({"clang", Target::cpu(), support::clang()});
  return all;
}

// A rule whose step is `update`, in line 6 of its file.
std::string rule_of(const std::string& update) {
  return "#pragma once\n#include \"../lang/contract.cuh\"\nnamespace jitstep::rules::mine {\n"
         "struct Rule {\n"
         "  KHD static void update_param(auto& e, const auto&) {\n"
         "    e.p -= " +
         update + ";\n  }\n};\n}\n";
}

class SameTexts : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    testing::write_file(folder_ / name, content);
    return folder_ / name;
  }

  // The error of loading and building the rule, or "accepted".
  std::string build(const Compiler& compiler, const std::string& rule) {
    Settings settings = testing::settings_with_nvrtc("");
    if (!compiler.cxx.empty()) settings.cxx = compiler.cxx;
    Engine engine(settings);
    Catalog catalog(engine.templates());
    try {
      KernelSpec spec{.rule = catalog.load_rule(write("mine.cuh", rule)).name};
      spec.gradient_flags = OptionValues("mine", catalog).gradient_flags();
      const Plan plan = resolve(spec, catalog);
      const Unit made = unit(plan, default_kernel_config(plan, compiler.target), compiler.target);
      engine.build(made.text, made.name, compiler.target);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }

  std::string first_line(const Compiler& compiler, const std::string& rule) {
    const std::string error = build(compiler, rule);
    return error.substr(0, error.find('\n'));
  }

  testing::TemporaryFolder folder_;
};

TEST_F(SameTexts, AreRejectedByEveryCompilerWithTheSameMessage) {
  const std::string own =
      "is specific to one compiler and differs between targets. See the names that you can use in "
      "docs/extending/reference.md, the kernel language reference, under Functions and types.";
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"fabs(e.g)", "`fabs` " + own},
      {"sqrtf(e.g)", "`sqrtf` " + own},
      {"floor(e.g)", "`floor` " + own},
      {"isnan(e.g) ? 1 : e.g", "`isnan` " + own},
      {"expf(e.g)", "`expf` " + own},
      {"(printf(\"here\"), e.g)", "`printf` " + own},
      {"static_cast<real>(clock64())", "`clock64` " + own},
      {"threadIdx.x > 0 ? 0 : e.g", "`threadIdx` " + own},
      {"make_float2(e.g, e.g).x", "`make_float2` " + own},
      {"static_cast<real>(sizeof(size_t))", "`size_t` " + own},
      {"__expf(e.g)", "`__expf` " + own},
      {"exp(e.g)", "`exp` takes `double`, for `prepare` and `finalize`: convert with static_cast"},
      {"static_cast<real>(pow(2.0, e.g))",
       "`pow` takes `double`, for `prepare` and `finalize`: convert with static_cast"},
      {"fma(2.0, e.g, e.g)",
       "`fma` takes three `float` or three `double`: convert with static_cast"},
      {"[&](real \xce\xb2) { return \xce\xb2; }(e.g)",
       "code contains a character that is not ASCII, which not every compiler accepts. Write it in "
       "a comment or remove it."},
  };
  for (const auto& [update, words] : refused)
    for (const Compiler& compiler : compilers())
      EXPECT_EQ(first_line(compiler, rule_of(update)), str_cat(folder_ / "mine.cuh", ":6: ", words))
          << compiler.name;
}

TEST_F(SameTexts, WithTheirOwnFunctionsAreAcceptedByEveryCompiler) {
  std::string rule = rule_of("floor(fma(real(2), e.g, e.p))");  // caf\xc3\xa9: a comment may say it
  rule.replace(rule.find("  KHD"), 0,
               "  KHD static real floor(real x) { return x > 0 ? x : real(0); }\n");
  for (const Compiler& compiler : compilers())
    EXPECT_EQ(build(compiler, rule), "accepted") << compiler.name;
}

TEST_F(SameTexts, WithTheFormerPathsOfFilesAreAcceptedByEveryCompiler) {
  for (const char* file : {"contract", "absmax", "codebook", "scaled_float8"}) {
    std::string rule = rule_of("e.g");
    const std::string path = "lang/contract";
    rule.replace(rule.find(path), path.size(), str_cat("core/", file));
    for (const Compiler& compiler : compilers())
      EXPECT_EQ(build(compiler, rule), "accepted") << compiler.name << " " << file;
  }
}

TEST_F(SameTexts, ThatConvertElementsToDoubleAreAcceptedByEveryCompiler) {
  const std::string rule = rule_of("cbrt(e.g) + static_cast<real>(log(static_cast<double>(e.g)))");
  for (const Compiler& compiler : compilers())
    EXPECT_EQ(build(compiler, rule), "accepted") << compiler.name;
}

TEST_F(SameTexts, HaveTheUsersPathInEveryPartOfAnError) {
  for (const Compiler& compiler : compilers()) {
    const std::string error = build(compiler, rule_of("e.q"));
    EXPECT_TRUE(error.starts_with(folder_ / "mine.cuh" + ":6: ")) << error;
    EXPECT_NE(error.find("---- " + folder_ / "mine.cuh" + "\n"), error.npos) << "the excerpt";
    EXPECT_EQ(error.find("rules/mine.cuh"), error.npos) << error;
    EXPECT_NE(error.find("kernel/"), error.npos) << "jitstep's own files keep their names";
  }
}

TEST_F(SameTexts, WithoutABraceAreRejectedAtTheirOwnLine) {
  std::string rule = rule_of("e.g");
  rule.erase(rule.find("  }\n"), 4);
  for (const Compiler& compiler : compilers())
    EXPECT_EQ(build(compiler, rule),
              folder_ / "mine.cuh" + ":5: the `{` of this line is not closed. Add its `}`.");
}

TEST_F(SameTexts, OfAFolderOfTemplatesHaveTheirPathInErrors) {
  const std::string path = write("rules/mine.cuh", rule_of("e.g") + "}\n");
  TemplateStore store(folder_.path());
  Catalog catalog(store);
  try {
    catalog.rule("mine");
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with(path + ":10: this `}` has no matching `{`"))
        << error.what();
  }
  write("rules/mine.cuh", rule_of("e.g"));
  EXPECT_EQ(catalog.rule("mine").path, "rules/mine.cuh");
}

}  // namespace
}  // namespace jitstep::jit
