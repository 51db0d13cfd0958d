// A unit does not compile if the host reads a file otherwise than the compiler does: the host would allocate buffers of
// another size than the kernel writes, or merge dimensions that the kernel reads.
#include <gtest/gtest.h>

#include "jit/base/process.h"
#include "jit/codegen/unit.h"
#include "jit/fixtures.h"
#include "jit/source/preprocess.h"
#include "jit/user_templates.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {
namespace {

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

class UnitAsserts : public ::testing::Test {
 protected:
  // The compiler's messages about a step whose templates include this file.
  std::string compiled(const std::string& path, const std::string& text, const KernelSpec& spec) {
    const testing::TemporaryFolder folder;
    testing::fs::create_directories(testing::fs::path(folder / path).parent_path());
    testing::write_file(folder / path, text);
    TemplateStore store(folder.path());
    const Catalog catalog(store);
    const Plan plan = resolve(spec, catalog);
    const Unit made = unit(plan, default_kernel_config(plan, Target::cpu()), Target::cpu());
    const Settings settings = Settings::from_environment();
    const std::string compiler = find_program("c++", settings.path);
    const Finished finished =
        run_program({compiler, "-std=c++20", "-fsyntax-only", "-x", "c++", "-"},
                    preprocess(made.text, made.name, store), own_variables());
    return finished.status == 0 ? "" : finished.output;
  }

  void expect_problem(const std::string& errors, const std::string& path, const std::string& name) {
    EXPECT_NE(errors.find(str_cat(path, ": ")), errors.npos) << errors;
    EXPECT_NE(errors.find(str_cat("'", name, "'")), errors.npos) << errors;
  }

  void expect_codec_problem(const std::string& text, const std::string& name) {
    expect_problem(compiled("codecs/normed.cuh", text, kWithCodec), "codecs/normed.cuh", name);
  }

  const KernelSpec kWithCodec{.rule = "tiger", .state = {{CodecChoice{"normed"}}}};
  const std::string kCodec = testing::kNormedText;
};

TEST_F(UnitAsserts, TheCodesHaveTheTypeOfTheFirstDeclaration) {
  EXPECT_EQ(compiled("codecs/normed.cuh", kCodec, kWithCodec), "");
  expect_codec_problem(with(kCodec, "using Code = normed::Code", "using Code = uint8"), "Code");
  expect_codec_problem(
      with(kCodec, "using Code", "struct A {\n  using Code = uint8;\n};\nusing Code"), "Code");
}

TEST_F(UnitAsserts, MetadataIsInAStruct) {
  const std::string alias = "struct Pair { float a, b; };\nusing Meta = Pair;\nusing Code";
  const std::string own = with(kCodec, "using Meta = NoMeta", "using Meta = normed::Meta");
  expect_codec_problem(with(own, "using Code", alias), "Meta");
}

TEST_F(UnitAsserts, TheResidualHasTheTypeOfTheFirstDeclaration) {
  const std::string good =
      with(*TemplateStore().find("weights/split8.cuh"), "weights::split8", "weights::own");
  const KernelSpec spec{.rule = "tiger",
                        .state = {{CodecChoice{"fp32"}}, "own", Dtype::bfloat16},
                        .gradient = Dtype::bfloat16};
  EXPECT_EQ(compiled("weights/own.cuh", good, spec), "");
  const std::string other = "struct Plain {\n  using Residual = NoResidual;\n};\ntemplate";
  expect_problem(compiled("weights/own.cuh", with(good, "template", other), spec),
                 "weights/own.cuh", "Residual");
}

TEST_F(UnitAsserts, ARuleNamesTheTypeOfTheSizesThatItReads) {
  const auto rule = [](const std::string& size) {
    return str_cat(
        "#pragma once\n#include \"../lang/contract.cuh\"\nnamespace jitstep::rules::sized "
        "{\nstruct Scalars { real rate; };\nstruct Rule {\n  KHD static Scalars "
        "prepare(const NoHyper&, int64, ",
        size,
        ") { return {real(size.dims())}; }\n  KHD static void update_param(auto& e, "
        "const auto& c) { e.p -= c.rate * e.g; }\n};\n}\n");
  };
  const KernelSpec spec{.rule = "sized"};
  EXPECT_EQ(compiled("rules/sized.cuh", rule("const Sizes& size"), spec), "");
  expect_problem(compiled("rules/sized.cuh", rule("const auto& size"), spec), "rules/sized.cuh",
                 "const Sizes& size");
}

}  // namespace
}  // namespace jitstep::jit
