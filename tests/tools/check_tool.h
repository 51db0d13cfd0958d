// Runs `jitstep check` on a rule and on changes of it.
#pragma once

#include <string>
#include <vector>

#include "jit/base/private_files.h"
#include "jit/fixtures.h"
#include "tools/tool.h"

namespace jitstep::jit::testing {

using Args = std::vector<std::string>;

// One kernel without and one with sums, for the CPU.
inline const Args kFew = {"--states", "fp32", "--weights", "stochastic", "--target", "cpu"};

// native has kernels for float32, which checks on a quadratic function need.
inline const Args kNative = {"--states", "fp32", "--weights", "native", "--target", "cpu"};

// For tests of what needs no kernel.
inline const Variables kNoCompiler = {{"JITSTEP_CXX", "/no/compiler"}};

inline const std::string kRule = R"(// A rule of the tests.   class: Mine
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::mine {
struct Hyper {
  double lr = 1e-3;  // > 0
};
struct Slots {
  Signed m;  // torch: buffer
};
struct Scalars { real lr; };
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) { return {static_cast<real>(h.lr)}; }
  KHD static void update_state(auto& e, const auto&) { e.m.next = e.m.prev + e.g; }
  KHD static void update_param(auto& e, const auto& c) { e.p -= c.lr * e.m.next; }
};
}
)";

class CheckTool : public ::testing::Test {
 protected:
  static Finished run(const std::string& file, const Args& args = kFew,
                      const Variables& environment = {}) {
    return run_tool(with({"check", file}, args), environment);
  }

  // kRule, with `right` replaced by `wrong`.
  std::string rule_with(const std::string& right, const std::string& wrong) {
    std::string rule = kRule;
    EXPECT_NE(rule.find(right), rule.npos) << right;
    rule.replace(rule.find(right), right.size(), wrong);
    write_file(folder_ / "mine.cuh", rule);
    return folder_ / "mine.cuh";
  }
  std::string rule() { return rule_with("// A rule", "// A rule"); }

  // Expects that the rule fails with this text.
  void expect_wrong(const std::string& file, const std::string& message, const Args& args = kFew) {
    const Finished checked = run(file, args);
    EXPECT_EQ(checked.status, 1) << checked.output;
    EXPECT_TRUE(says(checked, message)) << checked.output;
  }

  static bool says(const Finished& run, const std::string& part) {
    return run.output.find(part) != std::string::npos;
  }
  static Args with(Args args, const Args& more) {
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  static bool no_nvrtc() { return Settings::from_environment().nvrtc.empty(); }

  TemporaryFolder folder_;
};

}  // namespace jitstep::jit::testing
