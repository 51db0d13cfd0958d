// `jitstep check` and `jitstep inspect` report loops over elements that the host compiler does not vectorize.
#include <nlohmann/json.hpp>
#include <regex>

#include "jit/base/private_files.h"
#include "jit/cache/cache_fixtures.h"
#include "tools/tool.h"

namespace jitstep::jit {
namespace {

using nlohmann::json;
using testing::content_of;
using testing::run_tool;
using testing::TemporaryFolder;
using Args = std::vector<std::string>;

// A codec that selects one of sixteen values by branches. The narrow range of `block` keeps the number of kernels low.
const std::string kTree = R"(// A codec of the tests.
#pragma once
#include "support/absmax.cuh"
namespace jitstep::codecs::tree4 {
struct Options {
  int block = 128;  // power of two in [128, 128]
};
using Code = Nibble;
struct Meta { float scale; };
template <class Sign, Options O>
struct Codec : AbsmaxBlock<Meta, Ways{.block = O.block}> {
  using Code = tree4::Code;
  using B = AbsmaxBlock<Meta, Ways{.block = O.block}>;
  KHD static float magnitude(int c) {
    if (c < 4) {
      if (c < 2) return c == 0 ? 0.0f : 0.0625f;
      return c == 2 ? 0.125f : 0.25f;
    }
    if (c < 6) return c == 4 ? 0.375f : 0.5f;
    return c == 6 ? 0.75f : 1.0f;
  }
  KHD static real decode(uint8 code, const Meta& meta) {
    const float x = magnitude(code & 7);
    return B::value_of(code & 8 ? -x : x, meta);
  }
  KHD static uint8 encode(real x, const typename B::Measured& measured, uint32) {
    const float y = abs(B::normalize(x, measured));
    int c = 0;
    for (int k = 1; k < 8; ++k) c = y >= 0.5f * (magnitude(k) + magnitude(k - 1)) ? k : c;
    if (!kSame<Sign, Signed> && x > 0 && c == 0) c = 1;
    return static_cast<uint8>(is_finite(static_cast<float>(x)) ? c | (x < 0 ? 8 : 0) : 0);
  }
};
}
)";

// Halves a large gradient until it is small.
const std::string kHalving = R"(// A rule of the tests.   class: Halving
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::halving {
struct Hyper {
  double lr = 1e-3;  // > 0
};
struct Flags {
  bool halves = false;  //
};
struct Scalars { real lr; };
template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) { return {static_cast<real>(h.lr)}; }
  KHD static void update_param(auto& e, const auto& c) {
    real g = e.g;
    if constexpr (F.halves)
      while (is_finite(g) && abs(g) > 1) g *= real(0.5);
    e.p -= c.lr * g;
  }
};
}
)";

class ScalarLoops : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    testing::write_file(folder_ / name, text);
    return folder_ / name;
  }
  static json checked(const std::string& file, Args args = {}) {
    args.insert(args.begin(), {"check", file, "--target", "cpu", "--json"});
    const Finished result = run_tool(args, testing::kPlainCompiler);
    EXPECT_EQ(result.status, 0) << result.output;
    return json::parse(result.output);
  }
  // The warnings about loops, with their kernels.
  static json of_loops(const json& report) {
    json found = json::array();
    for (const json& warning : report.at("warnings"))
      if (warning.at("what").get<std::string>().find("does not vectorize") != std::string::npos)
        found.push_back(warning);
    return found;
  }
  static std::string location_of(const std::string& loop, const std::string& file) {
    std::istringstream lines(content_of(JITSTEP_SOURCE_DIR "/templates/" + file));
    bool found = false;
    int number = 1;
    for (std::string line; std::getline(lines, line); ++number) {
      found = found || line.find("// vectorized: " + loop) != line.npos;
      if (found && line.find("for (") != line.npos) return file + ":" + std::to_string(number);
    }
    return "no such loop";
  }

  TemporaryFolder folder_;
};

TEST_F(ScalarLoops, OfACodecThatBranchesCauseAWarningWithTheirLocation) {
  const json found = of_loops(checked(file("tree4.cuh", kTree)));
  ASSERT_GE(found.size(), 1u);
  const std::string what = found.at(0).at("what");
  EXPECT_NE(what.find("the loop that decodes"), what.npos) << what;
  EXPECT_NE(what.find(location_of("the loop that decodes", "kernel/loop/encoded_range.cuh")),
            what.npos)
      << what;
  EXPECT_NE(what.find("using Codebook"), what.npos) << what;
}

TEST_F(ScalarLoops, OfARuleCauseAWarningWithTheirOptions) {
  const json found = of_loops(
      checked(file("halving.cuh", kHalving), {"--states", "fp32", "--weights", "stochastic"}));
  ASSERT_FALSE(found.empty());
  for (const json& warning : found) {
    const std::string what = warning.at("what");
    EXPECT_NE(what.find("the loop over "), what.npos) << what;
    for (const json& kernel : warning.at("kernels"))
      EXPECT_NE(kernel.get<std::string>().find("halves"), std::string::npos) << found;
  }
}

// The documentation shows this file.
TEST_F(ScalarLoops, DoNotOccurInTheDocumentedCodebookCodec) {
  const json report = checked(JITSTEP_SOURCE_DIR "/examples/docs/nf4.cuh");
  EXPECT_TRUE(report.at("warnings").empty()) << report.at("warnings");
  EXPECT_TRUE(report.at("problems").empty()) << report.at("problems");
}

TEST_F(ScalarLoops, AreListedInTheResourcesOfTheCpu) {
  const Args tree = {"inspect", "--state",  file("tree4.cuh", kTree), "--target", "cpu",
                     "--show",  "resources"};
  const Finished result = run_tool(tree, testing::kPlainCompiler);
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_NE(
      result.output.find("\nnot vectorized: the loop that decodes (" +
                         location_of("the loop that decodes", "kernel/loop/encoded_range.cuh")),
      result.output.npos)
      << result.output;
  Args as_json = tree;
  as_json.push_back("--json");
  const json loops = json::parse(run_tool(as_json, testing::kPlainCompiler).output)
                         .at("resources")
                         .at("scalar_loops");
  ASSERT_GE(loops.size(), 1u);
  EXPECT_EQ(loops.at(0).at("loop"), "the loop that decodes");
  EXPECT_EQ(loops.at(0).at("file"), "kernel/loop/encoded_range.cuh");
}

// Other sections of the output do not need that report.
TEST_F(ScalarLoops, AreNotReportedIfTheCompilerCannotReportThem) {
  const std::string compiler = file("silent", R"(#!/bin/sh
case " $* " in *" -fopt-info"* | *" -Rpass"*) echo no reports here >&2; exit 1 ;; esac
exec c++ "$@"
)");
  testing::fs::permissions(compiler, testing::fs::perms::owner_all);
  const Variables silent = {{"JITSTEP_CXX", compiler}, {"JITSTEP_CACHE_DIR", folder_ / "cache"}};
  Args args = {"inspect", "--target", "cpu", "--show", "resources"};
  const Finished result = run_tool(args, silent);
  EXPECT_EQ(result.status, 0) << result.output;
  const std::string problem = "the compiler gave no report of vectorized loops: ";
  EXPECT_NE(result.output.find("\njitstep_apply"), result.output.npos) << result.output;
  EXPECT_NE(result.output.find("\n" + problem), result.output.npos) << result.output;
  args.push_back("--json");
  const json shown = json::parse(run_tool(args, silent).output).at("resources");
  EXPECT_EQ(shown.at("scalar_loops"), nullptr);
  EXPECT_TRUE(shown.at("scalar_loops_problem").get<std::string>().starts_with(problem)) << shown;
}

TEST_F(ScalarLoops, DoNotOccurInShippedRulesAndCodecs) {
  const std::pair<const char*, const char*> kernels[] = {{"adafactor", "fp32"},
                                                         {"came", "fp32"},
                                                         {"lamb", "int8"},
                                                         {"adamw", "int4"},
                                                         {"adamw", "fp8"}};
  for (const auto& [rule, state] : kernels) {
    const Finished result = run_tool({"inspect", "--rule", rule, "--state", state, "--target",
                                      "cpu", "--show", "resources", "--json"});
    EXPECT_EQ(result.status, 0) << result.output;
    EXPECT_EQ(json::parse(result.output).at("resources").at("scalar_loops"), json::array())
        << rule << " " << state;
  }
}

}  // namespace
}  // namespace jitstep::jit
