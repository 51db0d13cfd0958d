// Covering sets: options that give every flag of a rule each of its values.
#include "emulation/option_covering_set.h"

#include <gtest/gtest.h>

#include <set>

#include "emulation/option_search.h"
#include "jit/fixtures.h"
#include "jitstep/jit/engine.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/spec.h"

namespace jitstep::emulation {
namespace {

using jit::Catalog;
using jit::Manifest;
using Words = std::set<std::string>;

class OptionCoveringSet : public ::testing::Test {
 protected:
  // A rule with such a lifted flag.
  const Manifest& rule(const std::string& lifted, const std::string& more = "") {
    const std::string content =
        "#pragma once\n#include \"../lang/contract.cuh\"\nnamespace jitstep::rules::mine {\n"
        "enum class Form { plain, bent };\n"
        "struct Hyper {\n"
        "  double lr = 1e-3;               // >= 0\n"
        "  double n = 10;                  // integer; >= 1\n"
        "  Numbers<2> betas = {0.9, 0.5};  // in [0, 1)\n"
        "  Nullable limit = null;          // > 0\n"
        "};\nstruct Flags {\n  bool wide = false;\n  Form form = Form::plain;\n"
        "  bool deep = false;  // lifted: " +
        lifted + "\n};\nstruct Slots {\n  Signed m;\n  Signed k;  // if wide && !deep\n};\n" +
        more + "template <Flags F>\nstruct Rule {};\n}\n";
    engine_.templates().add("rules/mine.cuh", content);
    catalog_ = std::make_unique<Catalog>(engine_.templates());
    return catalog_->rule("mine");
  }

  std::vector<std::string> unreached(const std::string& lifted) {
    const Manifest& made = rule(lifted);  // also makes the catalog
    return unreached_flags(made, *catalog_);
  }

  // Every flag value that some options of the covering set reach, as text.
  Words reached(const Manifest& rule) {
    Words words;
    for (const RuleOptions& options : covering_set(rule, *catalog_)) {
      jit::OptionValues values("mine", *catalog_);
      for (const auto& [name, value] : options.values) values.set(name, value);
      values.validate();
      validate(values, options);
      for (const auto& flag : flags_of(values, options))
        words.insert(to_string(jit::NamedValues{flag}));
    }
    return words;
  }

  jit::Engine engine_{jit::testing::settings_with_nvrtc("")};
  std::unique_ptr<Catalog> catalog_;
};

TEST_F(OptionCoveringSet, ReachesFlagsWithConditionsOnOneOptionOrDims) {
  for (const char* lifted :
       {"dims >= 4", "dims == 5", "dims == 8", "dims < 2", "n > 100", "n == 37", "lr > 0.0625",
        "lr == 0.3", "betas[0] > 0.95", "betas[1] <= 0.001", "limit == 3", "limit > 1e6",
        "lr > 1e9", "-2.5 < lr && lr < 1e-7"}) {
    const Words words = reached(rule(lifted));
    for (const char* flag : {"deep=true", "deep=false"})
      EXPECT_TRUE(words.contains(flag)) << lifted;
    EXPECT_TRUE(unreached_flags(catalog_->rule("mine"), *catalog_).empty()) << lifted;
  }
}

TEST_F(OptionCoveringSet, ReachesFlagsWithConditionsOnSeveralOptions) {
  for (const char* lifted :
       {"dims >= 4 && n > 100", "wide && form == bent && dims == 3", "lr > betas[0]",
        "betas[0] > 0.95 && betas[1] > betas[0]", "limit != null && limit < lr && wide",
        "n > 100 && n < 103 && dims == 6 && (wide || lr == 0)",
        "!(lr < 0.5 || n != 64 || !wide)"}) {
    const Words words = reached(rule(lifted));
    for (const char* flag : {"deep=true", "deep=false"})
      EXPECT_TRUE(words.contains(flag)) << lifted;
  }
}

TEST_F(OptionCoveringSet, ReachesFlagsWithConditionsOnSizes) {
  for (const char* lifted :
       {"size(0) == 37", "numel > 1000000", "size(0) < 129 && size(-1) > 128 && dims == 2",
        "fan_in > fan_out", "fan_in == 64 && wide", "numel > n && n > 50"}) {
    const Words words = reached(rule(lifted));
    for (const char* flag : {"deep=true", "deep=false"})
      EXPECT_TRUE(words.contains(flag)) << lifted;
    EXPECT_TRUE(unreached_flags(catalog_->rule("mine"), *catalog_).empty()) << lifted;
  }
}

TEST_F(OptionCoveringSet, AvoidsRefusedOptions) {
  const Words words =
      reached(rule("dims == 5",
                   "// refuse: dims >= 4 && n < 50, large ones need a large n\n"
                   "// refuse: wide && (lr < 0.25 || betas[0] < 0.97), not with these\n"));
  for (const char* flag : {"deep=true", "wide=true", "form=bent"})
    EXPECT_TRUE(words.contains(flag)) << flag;
}

TEST_F(OptionCoveringSet, ReachesBothValuesOfConditionsOnFlags) {
  const Manifest& found = rule("lr > 0.5");
  Words found_ways;
  for (const RuleOptions& options : covering_set(found, *catalog_)) {
    jit::OptionValues values("mine", *catalog_);
    for (const auto& [name, value] : options.values) values.set(name, value);
    found_ways.insert(jit::is_stored(found.slots[1], values.flags(options.dims)) ? "stored"
                                                                                 : "left out");
  }
  EXPECT_EQ(found_ways, (Words{"stored", "left out"}));
}

TEST_F(OptionCoveringSet, NamesValuesItDoesNotReach) {
  EXPECT_EQ(unreached("lr > 5 && lr < 4"), std::vector<std::string>{"deep=true"});
  EXPECT_EQ(unreached("lr >= 0"), std::vector<std::string>{"deep=false"});
}

TEST_F(OptionCoveringSet, RecognizesUnreachableValues) {
  for (const char* lifted : {"wide && !wide", "dims > 8", "form == bent && dims < 1"})
    EXPECT_TRUE(unreached(lifted).empty()) << lifted;
}

TEST_F(OptionCoveringSet, ReachesAllOfEveryShippedRule) {
  const Catalog& shipped = jit::default_catalog();
  for (const std::string& name : shipped.names(Manifest::Kind::rule))
    EXPECT_EQ(unreached_flags(shipped.rule(name), shipped), std::vector<std::string>{}) << name;
}

TEST_F(OptionCoveringSet, TriesCodecOptionsAroundTheConstantsOfItsConditions) {
  engine_.templates().add(
      "codecs/mine.cuh",
      "#pragma once\n#include \"../lang/contract.cuh\"\nnamespace jitstep::codecs::mine {\n"
      "struct Options {\n  int n = 3;  // in [1, 100]\n};\nusing Code = uint8;\n"
      "struct A { real x; };\nstruct Reductions {\n  Sum<tensor, 1, A> a;  // if n > 40\n};\n"
      "struct AuxState {\n  Entry<tensor> a;  // if n == 7\n};\n}\n");
  const Catalog catalog(engine_.templates());
  std::set<double> tried;
  for (const auto& options : covering_set(catalog.codec("mine")))
    if (!options.empty()) tried.insert(options.at("n").number());
  for (const double n : {1, 7, 8, 40, 41, 100}) EXPECT_TRUE(tried.contains(n)) << n;
}

}  // namespace
}  // namespace jitstep::emulation
