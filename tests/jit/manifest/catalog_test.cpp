#include "jitstep/jit/catalog.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <thread>

#include "jit/base/args.h"
#include "jit/fixtures.h"
#include "jitstep/hyper_params.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::jit {
namespace {

using testing::TemporaryFolder;
using Kind = Manifest::Kind;

TEST(CatalogNames, OmitTheLibrarysInternalRules) {
  const std::vector<std::string> names = default_catalog().names(Kind::rule);
  EXPECT_EQ(std::count(names.begin(), names.end(), "jitstep_gradient_sum"), 0);
  EXPECT_EQ(std::count(names.begin(), names.end(), "adamw"), 1);
  EXPECT_EQ(default_catalog().rule("jitstep_gradient_sum").name, "jitstep_gradient_sum");
  const std::string unknown = testing::error_of([] { default_catalog().rule("nothing"); });
  EXPECT_EQ(unknown.find("jitstep_"), std::string::npos) << unknown;
}

const std::string kRule = R"(// Plain descent.   class: Plain
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::plain {
struct Hyper {
  double lr = 0.5;           // > 0
  double max_grad_norm = 3;  // >= 0
  Nullable limit = null;     // > 0
  List offset = {};
};
struct Flags {
  bool big = false;    // lifted: lr > 1
  bool bigger = true;  // lifted: big && max_grad_norm != 0
  bool flat = false;   // lifted: dims < 2
};
// refuse: big && limit == null, a large lr needs a limit
struct Scalars { real lr; };
template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) { return {static_cast<real>(h.lr)}; }
  KHD static void update_param(auto& e, const auto& c) { e.p -= c.lr * e.g; }
};
}
)";

std::string write(const TemporaryFolder& folder, const std::string& name,
                  const std::string& content) {
  const std::string path = folder / name;
  std::ofstream(path, std::ios::trunc) << content;
  ::chmod(path.c_str(), 0600);
  return path;
}

template <class Act>
std::string problem(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class CatalogTest : public ::testing::Test {
 protected:
  TemplateStore store;
  Catalog catalog{store};
  TemporaryFolder folder;
};

TEST_F(CatalogTest, FindsEveryFileOfTheFolders) {
  std::size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(JITSTEP_SOURCE_DIR "/templates/rules")) {
    const std::string name = entry.path().stem().string();
    EXPECT_TRUE(catalog.has(Kind::rule, name));
    EXPECT_EQ(catalog.rule(name).name, name);
    ++files;
  }
  EXPECT_EQ(catalog.names(Kind::rule).size(), files);
  for (const auto& name : catalog.names(Kind::codec))
    EXPECT_EQ(catalog.codec(name).path, "codecs/" + name + ".cuh");
  for (const auto& name : catalog.names(Kind::weights))
    EXPECT_FALSE(catalog.weights(name).dtypes.empty());
  EXPECT_EQ(&catalog.rule("adamw"), &catalog.rule("adamw"));
}

TEST_F(CatalogTest, ListsOnlyFilesWithNamesThatItAccepts) {
  std::filesystem::create_directories(folder / "rules");
  for (const char* name : {"plain", "$(touch made)", "my-rule", "class"})
    write(folder, std::string("rules/") + name + ".cuh", kRule);
  TemplateStore own(folder.path(), false);
  EXPECT_EQ(Catalog(own).names(Kind::rule), std::vector<std::string>{"plain"});
}

TEST_F(CatalogTest, AnUnknownNameThrowsWithTheValidNames) {
  const std::string found = problem([&] { catalog.rule("adamx"); });
  EXPECT_TRUE(has(found, "there is no rule \"adamx\" (did you mean \"adam\"?)")) << found;
  for (const auto& name : catalog.names(Kind::rule)) EXPECT_TRUE(has(found, name)) << found;
  EXPECT_TRUE(has(found, "load_rule"));
  EXPECT_TRUE(has(problem([&] { catalog.codec("../rules/adam"); }), "there is no codec"));
  EXPECT_TRUE(has(problem([&] { catalog.weights(""); }), "native"));
}

TEST_F(CatalogTest, LoadsAUsersRule) {
  const std::string path = write(folder, "plain.cuh", kRule);
  const Manifest& manifest = catalog.load_rule(path);
  EXPECT_EQ(manifest.class_name, "Plain");
  EXPECT_EQ(&catalog.rule("plain"), &manifest);
  EXPECT_EQ(&catalog.load_rule(path), &manifest);
  EXPECT_EQ(store.find("rules/plain.cuh"), kRule);
}

TEST_F(CatalogTest, AFileWithoutTheTypesOfTemplatesThrows) {
  std::string rule = kRule;
  const std::string include = "#include \"../lang/contract.cuh\"";
  const std::size_t at = rule.find(include);
  rule.erase(at, include.size());
  const std::string path = write(folder, "plain.cuh", rule);
  const std::string found = problem([&] { catalog.load_rule(path); });
  EXPECT_TRUE(found.starts_with(path + ": ") && has(found, include)) << found;
  write(folder, "plain.cuh", rule.insert(at, "#include \"../formulas/decay.cuh\""));
  EXPECT_NO_THROW(catalog.load_rule(path)) << "another file includes them";
}

TEST_F(CatalogTest, AFileWithoutFunctionsThrows) {
  std::string rule = kRule;
  rule.replace(rule.find("struct Rule"), 11, "struct Rules");
  const std::string path = write(folder, "plain.cuh", rule);
  const std::string found = problem([&] { catalog.load_rule(path); });
  EXPECT_TRUE(found.starts_with(path + ": ") && has(found, "no `struct Rule`")) << found;
}

TEST_F(CatalogTest, FlagsOfARuleThatIsNoTemplateThrow) {
  std::string rule = kRule;
  const std::string parameters = "template <Flags F>";
  rule.erase(rule.find(parameters), parameters.size());
  const std::string path = write(folder, "plain.cuh", rule);
  const std::string found = problem([&] { catalog.load_rule(path); });
  EXPECT_TRUE(found.starts_with(path + ": ") && has(found, "`template <Flags F>`")) << found;
}

TEST_F(CatalogTest, AnotherFileOfTheSameNameThrows) {
  const TemporaryFolder elsewhere;
  catalog.load_rule(write(folder, "plain.cuh", kRule));
  const std::string other = write(elsewhere, "plain.cuh", kRule + "// changed\n");
  EXPECT_EQ(problem([&] { catalog.load_rule(other); }),
            "cannot load the rule " + other + ": another rule \"plain\" exists (" +
                (folder / "plain.cuh") + "). Rename the file and its namespace.");
  const std::string adamw = write(folder, "adamw.cuh", *store.find("rules/adamw.cuh"));
  EXPECT_EQ(problem([&] { catalog.load_rule(adamw); }), "no error");
  write(folder, "adamw.cuh", *store.find("rules/adamw.cuh") + "\n");
  EXPECT_TRUE(has(problem([&] { catalog.load_rule(adamw); }), "another rule \"adamw\""));
}

TEST_F(CatalogTest, RejectsFilesThatOthersMayWriteTo) {
  const std::string path = write(folder, "plain.cuh", kRule);
  ::chmod(path.c_str(), 0666);
  EXPECT_TRUE(has(problem([&] { catalog.load_rule(path); }), "chmod go-w"));
  EXPECT_FALSE(catalog.has(Kind::rule, "plain"));
  EXPECT_TRUE(has(problem([&] { catalog.load_rule(folder.path()); }), "not a regular file"));
  EXPECT_TRUE(has(problem([&] { catalog.load_rule(folder / "none.cuh"); }), "No such file"));
  if (::geteuid() == 0 && ::chmod(path.c_str(), 0644) == 0 &&
      ::chown(path.c_str(), 12345, 12345) == 0) {
    EXPECT_TRUE(has(problem([&] { catalog.load_rule(path); }), "belongs to another user"));
  }
}

TEST_F(CatalogTest, GrammarErrorsNameTheUsersFile) {
  const std::string path = write(folder, "wrong.cuh", "namespace jitstep::rules::right {\n}\n");
  EXPECT_TRUE(has(problem([&] { catalog.load_rule(path); }),
                  path + ":1: expected `namespace jitstep::rules::wrong"));
}

TEST_F(CatalogTest, RejectsAnUnknownCodecOfASlot) {
  std::string rule = kRule;
  rule.replace(rule.find("struct Scalars"), 0, "struct Slots {\n  Signed m;  // codec: fp9\n};\n");
  const std::string path = write(folder, "plain.cuh", rule);
  const std::string said = problem([&] { catalog.load_rule(path); });
  EXPECT_TRUE(said.starts_with(
      path + ":18: there is no codec \"fp9\" (did you mean \"fp8\"?). Known codecs: bf16, "))
      << said;
  EXPECT_TRUE(has(said, "load_codec()")) << said;
  EXPECT_TRUE(said.ends_with(" before the rule.")) << said;
  EXPECT_FALSE(catalog.has(Kind::rule, "plain"));
  store.add("rules/plain.cuh", rule);
  EXPECT_TRUE(
      problem([&] { catalog.rule("plain"); }).starts_with("rules/plain.cuh:18: there is no"));
}

TEST_F(CatalogTest, RejectsAnUnknownDefaultState) {
  const std::string path =
      write(folder, "plain.cuh", "// A rule.\n// default state: fp9\n" + kRule);
  EXPECT_TRUE(
      problem([&] {
        catalog.load_rule(path);
      }).starts_with(path + ":2: there is no codec \"fp9\" (did you mean \"fp8\"?). Known "));
  EXPECT_FALSE(catalog.has(Kind::rule, "plain"));
}

TEST_F(CatalogTest, RejectsUnknownDefaultWeights) {
  const std::string path =
      write(folder, "plain.cuh", "// A rule.\n// default weights: split17\n" + kRule);
  EXPECT_TRUE(problem([&] { catalog.load_rule(path); }).starts_with(path + ":2: there is no "));
}

TEST_F(CatalogTest, RejectsUnknownOptionsOfADefaultState) {
  const auto said = [&](const std::string& state) {
    const std::string path =
        write(folder, "plain.cuh", "// A rule.\n// default state: " + state + "\n" + kRule);
    const std::string all = problem([&] { catalog.load_rule(path); });
    return all.starts_with(path + ":2: ") ? all.substr(path.size() + 4) : "elsewhere: " + all;
  };
  EXPECT_EQ(
      said("int8(size = 64)"),
      "int8 has no option \"size\". Options: block, positive_floor, signed_scale, stochastic");
  EXPECT_EQ(said("int8(block = 63)"), "int8: block is 63 and must be a power of two in [32, 1024]");
  EXPECT_EQ(said("bf16(block = 64)"), "bf16 has no option \"block\". Options: none");
  EXPECT_EQ(said("int8(block = lr)"), "int8: block expects a number, not \"lr\"");
  EXPECT_EQ(said("fp8_norm(least_norm = epsilon)"),
            "fp8_norm: least_norm expects a number, or the name of a number of plain. It has no "
            "number \"epsilon\".");
  EXPECT_FALSE(catalog.has(Kind::rule, "plain"));
}

TEST_F(CatalogTest, IsThreadSafe) {
  const std::string path = write(folder, "plain.cuh", kRule);
  std::vector<const Manifest*> found(8);
  std::vector<std::thread> threads;
  for (auto& one : found) {
    threads.emplace_back([&] {
      for (const auto& name : catalog.names(Kind::rule)) catalog.rule(name);
      one = &catalog.load_rule(path);
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto* one : found) EXPECT_EQ(one, &catalog.rule("plain"));
}

class OptionsTest : public CatalogTest {
 protected:
  OptionValues plain() {
    return OptionValues(catalog.load_rule(write(folder, "plain.cuh", kRule)), catalog.gradient());
  }
};

TEST_F(OptionsTest, StartWithTheManifestsDefaults) {
  const OptionValues values("adamw", catalog);
  EXPECT_EQ(values.get("weight_decay"), Value(1e-2));
  EXPECT_EQ(values.get("decay"), Value("before"));
  EXPECT_EQ(values.get("grad_scale"), Value(1.0));
  EXPECT_TRUE(values.changed().empty());
  EXPECT_NO_THROW(values.validate());
}

TEST_F(OptionsTest, ErrorsNameTheOptionAndTheValidNames) {
  OptionValues values("adamw", catalog);
  EXPECT_TRUE(
      has(problem([&] { values.set("beta", 1); }),
          "adamw has no option \"beta\" (did you mean \"betas\"?). Options: lr, betas, eps, "
          "weight_decay, "));
  EXPECT_EQ(problem([&] { values.set("lr", true); }),
            "adamw: the option \"lr\" expects a number, not true");
  EXPECT_EQ(problem([&] { values.set("betas", Value::Numbers{1}); }),
            "adamw: the option \"betas\" expects 2 numbers, not [1]");
  EXPECT_EQ(problem([&] { values.set("decay", "later"); }),
            "adamw: the option \"decay\" expects one of before, after, step_size, not \"later\"");
  EXPECT_TRUE(has(problem([&] { values.get("clipped"); }), "has no option \"clipped\""));
}

TEST_F(OptionsTest, AreValidatedByTheirConstraints) {
  OptionValues values("adamw", catalog);
  values.set("betas", Value::Numbers{0.9, 1});
  EXPECT_EQ(problem([&] { values.validate(); }), "adamw: betas[1] is 1 and must be in [0, 1)");
  values.set("betas", Value::Numbers{0.9, 0.95});
  values.set("lr", std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(problem([&] { values.validate(); }), "adamw: lr is nan and must be finite and >= 0");
  values.set("lr", std::numeric_limits<double>::infinity());
  EXPECT_EQ(problem([&] { values.validate(); }), "adamw: lr is inf and must be finite and >= 0");
  values.set("lr", 1);
  values.set("grad_scale", 0);
  EXPECT_EQ(problem([&] { values.validate(); }), "adamw: grad_scale is 0 and must be > 0");
  OptionValues sgd("sgd", catalog);
  sgd.set("nesterov", true);
  EXPECT_EQ(problem([&] { sgd.validate(); }),
            "sgd: Nesterov momentum requires a momentum and zero dampening");
}

TEST_F(OptionsTest, ComputeFlagsIncludingLiftedOnes) {
  OptionValues values("sgd", catalog);
  EXPECT_EQ(values.flags(),
            (NamedValues{{"nesterov", false}, {"has_momentum", false}, {"capped", false}}));
  values.set("momentum", 0.9);
  values.set("max_grad_norm", 1);
  EXPECT_EQ(values.flags().at("has_momentum"), Value(true));
  EXPECT_EQ(values.gradient_flags().at("clipped"), Value(true));
  EXPECT_EQ(values.gradient_flags().at("scaled"), Value(false));
}

TEST_F(OptionsTest, LayOutNumbersAsKernelsReadThem) {
  OptionValues values("lamb", catalog);
  values.set("max_grad_norm", 7);
  const auto hyper = values.hyper();
  ASSERT_EQ(hyper.size(), static_cast<std::size_t>(kMaxHyper));
  EXPECT_EQ(hyper[0], 1);
  EXPECT_EQ(hyper[2], 7);
  EXPECT_EQ(hyper[8], 1e-3);
  EXPECT_EQ(hyper[10], 0.999);
  EXPECT_EQ(hyper[11], 1e-6);
  EXPECT_TRUE(std::isnan(hyper[13]));
  values.set("weight_norm_max", 10);
  EXPECT_EQ(values.hyper()[13], 10);
}

TEST_F(OptionsTest, OfTheRuleHideCommonOnesOfTheSameName) {
  OptionValues values = plain();
  EXPECT_EQ(values.get("max_grad_norm"), Value(3.0));
  values.set("max_grad_norm", 5);
  EXPECT_EQ(values.gradient_flags().at("clipped"), Value(false));
  EXPECT_EQ(values.hyper()[2], 0);
  EXPECT_EQ(values.hyper()[9], 5);
  const auto names = values.names();
  EXPECT_EQ(std::count(names.begin(), names.end(), "max_grad_norm"), 1);
}

TEST_F(OptionsTest, LiftFlagsFromFlagsAndDimensions) {
  OptionValues values = plain();
  values.set("lr", 2);
  EXPECT_EQ(values.flags(1), (NamedValues{{"big", true}, {"bigger", true}, {"flat", true}}));
  EXPECT_EQ(values.flags(3).at("flat"), Value(false));
  EXPECT_EQ(problem([&] { values.validate(); }), "plain: a large lr needs a limit");
}

class SizedOptions : public OptionsTest {
 protected:
  // Options of a rule with these lines in Hyper and Flags, and these refusals.
  OptionValues sized(const std::string& hyper, const std::string& flags,
                     const std::string& refusals = "") {
    const std::string text =
        "#pragma once\n#include \"../lang/contract.cuh\"\nnamespace jitstep::rules::sized {\n"
        "struct Hyper {\n  double lr = 0.5;  // >= 0\n" +
        hyper + "};\nstruct Flags {\n" + flags + "};\n" + refusals +
        "template <Flags F>\nstruct Rule {\n  KHD static void update_param(auto& e, const auto&) "
        "{ e.p = 0; }\n};\n}\n";
    return {catalog.load_rule(write(folder, "sized.cuh", text)), catalog.gradient()};
  }
};

TEST_F(SizedOptions, LiftFlagsFromSizes) {
  const OptionValues values = sized("",
                                    "  bool wide = false;  // lifted: size(0) >= 8 && dims > 1\n"
                                    "  bool deep = false;  // lifted: fan_in > fan_out\n"
                                    "  bool large = false;  // lifted: wide && numel > 100\n"
                                    "  bool last = false;  // lifted: size(-1) == 3\n");
  const auto flags = [&](const std::vector<std::int64_t>& sizes) {
    return to_string(values.flags_for(sizes));
  };
  EXPECT_EQ(flags({8, 3}), "deep=false, large=false, last=true, wide=true");
  EXPECT_EQ(flags({7, 30}), "deep=true, large=false, last=false, wide=false");
  EXPECT_EQ(flags({8, 2, 7}), "deep=false, large=true, last=false, wide=true");
  EXPECT_EQ(flags({800}), "deep=false, large=false, last=false, wide=false") << "one input";
  EXPECT_EQ(values.flags(2), values.flags_for({4096, 4096})) << "sizes are unknown";
}

TEST_F(SizedOptions, RefuseSizesThroughLiftedFlagsToo) {
  const OptionValues values = sized("", "  bool small = false;  // lifted: numel < 10\n",
                                    "// refuse: small && lr > 0.25, needs a small lr\n"
                                    "// refuse: size(1) > 5, is for narrow matrices\n");
  EXPECT_NO_THROW(values.validate()) << "the sizes are unknown";
  EXPECT_EQ(problem([&] { values.validate_for({9}); }), "sized: needs a small lr");
  EXPECT_EQ(problem([&] { values.validate_for({3, 6}); }), "sized: is for narrow matrices");
  EXPECT_NO_THROW(values.validate_for({10, 5}));
}

TEST_F(SizedOptions, HaveOtherFlagsOnceANumberOfASizeConditionChanges) {
  OptionValues values = sized(
      "  double most = 100;  // >= 0\n  double other = 1;  // >= 0\n",
      "  bool large = false;  // lifted: numel > most\n  bool inner = false;  // lifted: large\n");
  OptionValues changed = values;
  changed.set("other", 2);
  changed.set("lr", 0.25);
  EXPECT_TRUE(values.same_flags(changed));
  changed.set("most", 101);
  EXPECT_FALSE(values.same_flags(changed));
  NamedValues flags = values.flags_for({200});
  EXPECT_TRUE(changed.may_have_flags(flags, 1)) << "for some sizes";
}

TEST_F(SizedOptions, HaveOtherMatricesOnceTheirLargestSideChanges) {
  OptionValues values = sized("  double most = 100;  // >= 0\n",
                              "  bool large = false;\n};\nstruct Transforms {\n"
                              "  real turned;  // host: turn\n};\nstruct Matrices {\n"
                              "  Matrix<0, 0> left;  // largest side: most\n");
  OptionValues changed = values;
  changed.set("lr", 0.25);
  EXPECT_TRUE(values.same_flags(changed));
  changed.set("most", 101);
  EXPECT_FALSE(values.same_flags(changed));
}

TEST_F(SizedOptions, HideSizesOfTheirNames) {
  OptionValues values = sized("  double numel = 3;  // >= 0\n",
                              "  bool few = false;  // lifted: numel < 5 && size(0) > 5\n");
  EXPECT_EQ(values.flags_for({100}).at("few"), Value(true));
  values.set("numel", 6);
  EXPECT_EQ(values.flags_for({100}).at("few"), Value(false));
}

TEST_F(OptionsTest, WholeNumbersAreCheckedBeforeAFormulaDividesByThem) {
  std::string rule = kRule;
  rule.replace(rule.find("// > 0"), 6, "// finite");
  rule.replace(rule.find("3;  // >= 0"), 11, "4;  // power of two");
  OptionValues values(catalog.load_rule(write(folder, "plain.cuh", rule)), catalog.gradient());
  values.set("lr", std::numeric_limits<double>::infinity());
  EXPECT_NO_THROW(values.validate_integers());
  for (const double wrong : {0.0, 3.0, 2.5, 4294967296.0}) {
    values.set("max_grad_norm", wrong);
    EXPECT_THROW(values.validate_integers(), OptionError) << wrong;
  }
  EXPECT_TRUE(has(problem([&] { values.validate_integers(); }), "at most 2147483647"));
}

TEST_F(OptionsTest, NullOptionsTakeTheirConstructionValue) {
  std::string rule = kRule;
  rule.replace(rule.find("// > 0\n  List"), 6, "// > 0; at construction: lr");
  OptionValues values(catalog.load_rule(write(folder, "plain.cuh", rule)), catalog.gradient());
  EXPECT_TRUE(values.get("limit").is_null());
  OptionValues given = values;
  values.set("lr", 0.25);
  values.construct();
  EXPECT_EQ(values.get("limit"), Value(0.25));
  values.set("lr", 2);
  values.construct();
  EXPECT_EQ(values.get("limit"), Value(0.25)) << "for good";
  EXPECT_NO_THROW(values.validate());
  given.set("limit", 3);
  given.construct();
  EXPECT_EQ(given.get("limit"), Value(3.0));
}

TEST_F(OptionsTest, ComputeInitialValues) {
  OptionValues values = plain();
  EXPECT_EQ(values.initial({0, "offset"}, 2), 0) << "of an empty list";
  values.set("offset", Value::Numbers{4, 5});
  EXPECT_EQ(values.initial({2.5, ""}), 2.5);
  EXPECT_EQ(values.initial({0, "lr"}), 0.5);
  EXPECT_EQ(values.initial({0, "offset"}, 1), 5);
  EXPECT_TRUE(has(problem([&] {
                    values.initial({0, "offset"}, 2);
                  }),
                  "\"offset\" has 2 numbers, none for parameter 2"));
}

}  // namespace
}  // namespace jitstep::jit
