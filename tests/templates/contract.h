// Every compiler rejects a rule or codec that violates its contract. The first line of the error tells location and
// cause. A program instantiates this suite for some mistakes and compilers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <tuple>

#include "jit/base/text.h"
#include "jit/codegen/unit.h"
#include "jit/fixtures.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"
#include "support/compilers.h"
#include "templates/contract_mistakes.h"

namespace jitstep::jit::contract {

struct Case {
  std::string rule = kRule, codec = kCodec;
  std::string location;  // where the mistake is
};

// The line of the first `part` in the original text. A mistake does not change the number of lines.
inline int line_of(const std::string& content, const std::string& part) {
  const auto end = content.begin() + static_cast<std::ptrdiff_t>(content.find(part));
  return 1 + static_cast<int>(std::count(content.begin(), end, '\n'));
}

inline Case case_of(const Mistake& mistake) {
  Case made;
  for (std::string* content : {&made.rule, &made.codec}) {
    const std::size_t at = content->find(mistake.right);
    if (at == std::string::npos) continue;
    const int replaced = line_of(*content, mistake.right);
    content->replace(at, std::string(mistake.right).size(), mistake.wrong);
    made.location = str_cat(content == &made.rule ? "rules/odd.cuh:" : "codecs/even.cuh:",
                            mistake.at ? line_of(*content, mistake.at) : replaced, ": ");
    break;
  }
  return made;
}

// Builds a kernel of the rule with the codec, with the compiler `cxx` if it is not empty.
inline void build(const Case& made, const Target& target, const std::string& cxx) {
  Settings settings = testing::settings_with_nvrtc("");
  if (!cxx.empty()) settings.cxx = cxx;
  Engine engine(settings);
  engine.templates().add("rules/odd.cuh", made.rule);
  engine.templates().add("codecs/even.cuh", made.codec);
  const Catalog catalog(engine.templates());
  KernelSpec spec;
  spec.rule = "odd";
  spec.state.slots.assign(catalog.rule("odd").slots.size(), CodecChoice{"even"});
  spec.gradient_flags = OptionValues("odd", catalog).gradient_flags();
  const Plan plan = resolve(spec, catalog);
  const Unit made_unit = unit(plan, default_kernel_config(plan, target), target);
  engine.build(made_unit.text, made_unit.name, target);
}

struct Compiler {
  std::string name;
  Target target;
  std::string cxx = {};
};

inline void PrintTo(const Compiler& compiler, std::ostream* out) { *out << compiler.name; }

// NVRTC and the installed host compilers.
inline std::vector<Compiler> compilers() {
  std::vector<Compiler> all = {{"Nvrtc", Target::cuda(90)}};
  if (!support::gcc().empty()) all.push_back({"Gcc", Target::cpu(), support::gcc()});
  if (!support::clang().empty()) all.push_back({"Clang", Target::cpu(), support::clang()});
  return all;
}

using MistakeFor = std::tuple<Mistake, Compiler>;

class Contract : public ::testing::TestWithParam<MistakeFor> {};

TEST_P(Contract, ViolationsAreReported) {
  const auto& [mistake, compiler] = GetParam();
  const Case wrong = case_of(mistake);
  ASSERT_FALSE(wrong.location.empty()) << "nothing has " << mistake.right;
  std::string what;
  try {
    build(wrong, compiler.target, compiler.cxx);
    FAIL() << "it was compiled";
  } catch (const CompileError& error) {
    what = error.what();
  }
  const std::string first = what.substr(0, what.find('\n'));
  RecordProperty("first_line", first);
  EXPECT_TRUE(first.starts_with(wrong.location)) << wrong.location << "\n" << what.substr(0, 4000);
  for (const char* fragment : mistake.fragments)
    EXPECT_NE(first.find(fragment), std::string::npos) << fragment << "\n" << what.substr(0, 4000);
  EXPECT_LE(first.size(), 240u);
  EXPECT_NE(what.find("compiling odd"), std::string::npos) << "the log follows";
}

/// Which mistakes a program tries: each with one of the compilers, in turn, or each with all others.
enum class Share { one_compiler, others };

inline std::vector<MistakeFor> mistakes_with(Share share) {
  const std::vector<Compiler> all = compilers();
  std::vector<MistakeFor> pairs;
  for (std::size_t i = 0; i < mistakes().size(); ++i)
    for (std::size_t c = 0; c < all.size(); ++c)
      if ((i % all.size() == c) == (share == Share::one_compiler))
        pairs.emplace_back(mistakes()[i], all[c]);
  return pairs;
}

inline std::string name_of(const ::testing::TestParamInfo<MistakeFor>& test) {
  const auto& [mistake, compiler] = test.param;
  return mistake.name + ("For" + compiler.name);
}

}  // namespace jitstep::jit::contract
