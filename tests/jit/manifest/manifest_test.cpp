#include "jitstep/jit/manifest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "jit/base/text.h"
#include "jit/manifest/manifest_reader.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/template_store.h"

namespace jitstep::jit {
namespace {

using Kind = Manifest::Kind;

Manifest rule(const std::string& body, const std::string& header = "// A rule.\n") {
  return read_manifest(header + "#pragma once\nnamespace jitstep::rules::mine {\n" + body + "}\n",
                       "rules/mine.cuh", Kind::rule);
}

Manifest codec(const std::string& body) {
  return read_manifest("namespace jitstep::codecs::mine {\n" + body + "}\n", "codecs/mine.cuh",
                       Kind::codec);
}

template <class Read>
std::string problem(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string rule_problem(const std::string& body) {
  return problem([&] { rule(body); });
}

std::string hyper_problem(const std::string& line) {
  return rule_problem("struct Hyper {\n" + line + "\n};\n");
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Kind kind_of(const std::string& path) {
  return path.starts_with("rules/")    ? Kind::rule
         : path.starts_with("codecs/") ? Kind::codec
         : path.starts_with("lang/")   ? Kind::gradient
                                       : Kind::weights;
}

std::vector<std::string> shipped() {
  const TemplateStore store;
  std::vector<std::string> paths = {"lang/gradient.cuh"};
  for (const char* folder : {"rules/", "codecs/", "weights/"})
    for (auto& path : store.list(folder))
      if (!path.starts_with("codecs/support/")) paths.push_back(path);
  return paths;
}

TEST(Manifest, ReadsEveryShippedFile) {
  const TemplateStore store;
  for (const auto& path : shipped())
    EXPECT_NO_THROW(read_manifest(*store.find(path), path, kind_of(path))) << path;
}

TEST(Manifest, ReadsTheOptionsOfAdamW) {
  const Manifest m =
      read_manifest(*TemplateStore().find("rules/adamw.cuh"), "rules/adamw.cuh", Kind::rule);
  EXPECT_EQ(m.name, "adamw");
  EXPECT_EQ(m.class_name, "AdamW");
  EXPECT_TRUE(m.description.starts_with("AdamW (arXiv 1711.05101)"));
  EXPECT_TRUE(m.description.ends_with("(arXiv 2304.13013)."));
  EXPECT_EQ(m.option_names(),
            (std::vector<std::string>{"lr", "betas", "eps", "weight_decay", "clipping_threshold",
                                      "initial_lr", "amsgrad", "decay", "caution",
                                      "corrected_weight_decay"}));
  EXPECT_EQ(m.find("lr")->initial, Value(1e-3));
  EXPECT_EQ(m.find("betas")->initial, Value(Value::Numbers{0.9, 0.999}));
  EXPECT_EQ(to_string(m.find("betas")->constraint), "in [0, 1)");
  EXPECT_EQ(m.find("decay")->choices, (std::vector<std::string>{"before", "after", "step_size"}));
  EXPECT_EQ(m.doubles(), 7);
  ASSERT_EQ(m.slots.size(), 3u);
  EXPECT_FALSE(m.slots[1].is_signed);
  EXPECT_EQ(m.slots[2].torch_name, "max_exp_avg_sq");
  EXPECT_EQ(m.slots[2].condition->written(), "amsgrad");
}

TEST(Manifest, ReadsTheDeclarationsOfFormats) {
  const TemplateStore store;
  const auto read = [&](const std::string& path) {
    return read_manifest(*store.find(path), path, kind_of(path));
  };
  const Manifest int8 = read("codecs/int8.cuh");
  EXPECT_EQ(int8.code_bits(Dtype::float32), 8);
  EXPECT_EQ(int8.meta_bytes(), 4);
  EXPECT_TRUE(int8.block_scaled());
  EXPECT_EQ(read("codecs/int4.cuh").code_bits(Dtype::float32), 4);
  const Manifest fp32 = read("codecs/fp32.cuh");
  EXPECT_EQ(fp32.code_bits(Dtype::float64), 64);
  EXPECT_EQ(fp32.meta_bytes(), 0);
  EXPECT_FALSE(fp32.block_scaled());
  const Manifest stochastic = read("weights/stochastic.cuh");
  EXPECT_EQ(stochastic.dtypes, std::vector<Dtype>{Dtype::bfloat16});
  EXPECT_TRUE(stochastic.random);
  EXPECT_EQ(stochastic.residual_bytes(), 0);
}

TEST(Manifest, ReadsEveryKindOfNumber) {
  const Manifest m = rule(R"(struct Hyper {
  double a = -0.8;  // finite; 0: off, and other prose
)"
                          "  double b = 3;  // integer; >= 1; <= 9\n"
                          R"(  Numbers<2> eps = {null, 1e-3};  // in (0, 1]
  Nullable most = null;  // > 0
  List each = {};  // >= 0;
                   // for each parameter
};
)");
  EXPECT_EQ(m.doubles(), 6);
  EXPECT_EQ(to_string(m.find("b")->constraint), "an integer in [1, 9]");
  EXPECT_TRUE(std::isnan(m.find("eps")->initial.numbers()[0]));
  EXPECT_TRUE(m.find("most")->initial.is_null());
  EXPECT_EQ(m.find("each")->type, Option::Type::list);
  EXPECT_EQ(m.find("each")->note, "for each parameter");
}

TEST(Manifest, ReadsDeclarationsThatAFormatterBrokeOverLines) {
  const Manifest m = rule(R"(struct Hyper {
  double centralization =
      0.5;  // finite; a long note
  Numbers<2> eps = {null,
                    1e-3};  // >= 0; floors
  double last = 1;
};
)");
  EXPECT_EQ(m.find("centralization")->initial, Value(0.5));
  EXPECT_EQ(m.find("centralization")->note, "a long note");
  EXPECT_EQ(m.find("eps")->initial.numbers()[1], 1e-3);
  EXPECT_EQ(to_string(m.find("eps")->constraint), ">= 0");
  EXPECT_EQ(m.find("last")->initial, Value(1.0));
}

TEST(Manifest, AnIntegerMustFitAnInt) {
  const Manifest m = rule("struct Hyper {\n  double k = 1;  // integer; >= 1\n};\n");
  const Option& option = *m.find("k");
  EXPECT_FALSE(option.range_problem(2147483647.0));
  EXPECT_EQ(option.range_problem(2147483648.0),
            "k is 2147483648 and must be an integer >= 1, at most 2147483647");
  EXPECT_EQ(option.range_problem(1.5), "k is 1.5 and must be an integer >= 1");
}

TEST(Manifest, ReadsInputsSizesAndTheNoteElements) {
  const Manifest m = read_manifest(R"(namespace jitstep::rules::mine {
struct Inputs {
  Input hessian;  // an estimate
  Input noise;
};
struct AuxState {
  Entry<tensor> seen;  // elements
  Entry<tensor> other;
};
struct Rule {
  KHD static int prepare(const Hyper& h, int64 t, const Sizes& size);
};
}
)",
                                   "rules/mine.cuh", Manifest::Kind::rule);
  ASSERT_EQ(m.inputs.size(), 2u);
  EXPECT_EQ(m.inputs[0].note, "an estimate");
  EXPECT_EQ(m.input("noise"), 1);
  EXPECT_EQ(m.input("noises"), -1);
  EXPECT_TRUE(m.aux_state[0].of_elements);
  EXPECT_FALSE(m.aux_state[1].of_elements);
  EXPECT_TRUE(m.reads_sizes);
  EXPECT_FALSE(default_catalog().rule("adamw").reads_sizes);
}

TEST(Manifest, ReadsReductionsAndAuxState) {
  const Manifest m = rule(R"(struct Hyper { double start = 2; };
struct Flags { bool on = true; };
struct Rows { real mean, spread; };
struct Mean {
  real factor;
  double sum;
};
struct Norm { real x; };
struct Reductions {
  Sum<rows, 1, Rows> row;
  Max<matrices, 2, Mean, Entries<rows, Rows>> mean;  // if on; update_state
  Sum<axis<2>, 3, Norm> norm;                        // after: mean, row
};
struct AuxState {
  Entry<tensor, double> scale;  // torch: exp_avg_sq; initial: start
  Entry<rows> row;              // initial: 0.5
};
)");
  ASSERT_EQ(m.reductions.size(), 3u);
  EXPECT_EQ(bytes_of(m.reductions[0].fields, Dtype::float32), 8);
  EXPECT_EQ(bytes_of(m.reductions[1].fields, Dtype::float32), 16);
  EXPECT_EQ(m.reductions[1].source, 0);
  EXPECT_EQ(m.reductions[1].after, std::vector<int>{0});
  EXPECT_TRUE(m.reductions[1].read_by_update_state);
  EXPECT_EQ(m.reductions[2].after, (std::vector<int>{1, 0}));
  EXPECT_EQ(to_string(m.reductions[2].domain), "axis<2>");
  EXPECT_TRUE(m.aux_state[0].is_double);
  EXPECT_EQ(m.aux_state[0].initial.option, "start");
  EXPECT_EQ(m.aux_state[1].initial.number, 0.5);
}

TEST(Manifest, ReadsDefaultsOfARuleByOption) {
  const Manifest m =
      rule("enum class Form { old, right };\nstruct Flags { Form form = Form::old; };\n",
           "// Words.   class: Mine   default state: fp8 if form == old\n"
           "// min_quantized_size: 0 if form == old\n// default state: bf16\n");
  EXPECT_EQ(m.description, "Words.");
  EXPECT_EQ(m.default_state({{"form", "old"}}), "fp8");
  EXPECT_EQ(m.default_state({{"form", "right"}}), "bf16");
  EXPECT_EQ(m.min_quantized_size({{"form", "old"}}), 0);
  EXPECT_FALSE(m.min_quantized_size({{"form", "right"}}));
}

TEST(Manifest, ReadsTheLeadingCommentBelowALicense) {
  const Manifest m = rule("",
                          "// SPDX-License-Identifier: MIT\n// Copyright 2026 Someone\n\n"
                          "#pragma once\n\n// Words.   class: Mine   default state: fp8\n");
  EXPECT_EQ(m.description, "Words.");
  EXPECT_EQ(m.class_name, "Mine");
  EXPECT_EQ(m.default_state({}), "fp8");
}

TEST(Manifest, MayEndALineOfTheDescriptionWithTheWordClass) {
  EXPECT_EQ(rule("", "// One of a\n// class\n// of rules.\n").description,
            "One of a class of rules.");
}

TEST(Manifest, ReadsCodecOptionsOfADefaultState) {
  const Manifest m = rule(
      "enum class Form { old, right };\nstruct Hyper { \n  double eps = 1e-6;  // >= 0\n};\n"
      "struct Flags {\n  Form form = Form::old;\n};\n",
      "// default state: normed(least = eps, block = 64, exact = true, way = up) if form == old\n"
      "// default state: bf16\n");
  EXPECT_EQ(m.default_state({{"form", "old"}}), "normed");
  EXPECT_EQ(m.default_state({{"form", "right"}}), "bf16");
  EXPECT_EQ(to_string(m.codec_options("normed")), "block=64, exact=true, least=eps, way=up");
  EXPECT_TRUE(m.codec_options("bf16").empty());
  EXPECT_TRUE(m.codec_options("int4").empty());
}

TEST(Constraint, CoversTighterConstraints) {
  const Constraint any, at_least{.low = 0, .high = {}}, above{.low = 0, .high = {}, .above = true},
      unit{.low = 0, .high = 1, .below = true}, closed{.low = 0, .high = 1},
      whole{.low = 1, .high = {}, .integer = true};
  for (const Constraint& one : {any, at_least, above, unit, closed, whole}) {
    EXPECT_TRUE(any.covers(one)) << to_string(one);
    EXPECT_TRUE(one.covers(one)) << to_string(one);
    EXPECT_EQ(one.covers(any), one.accepts(-1)) << to_string(one);
  }
  EXPECT_TRUE(at_least.covers(above));
  EXPECT_FALSE(above.covers(at_least));
  EXPECT_TRUE(closed.covers(unit));
  EXPECT_FALSE(unit.covers(closed));
  EXPECT_FALSE(unit.covers(above));
  EXPECT_TRUE(above.covers(whole));
  EXPECT_FALSE(whole.covers(Constraint{.low = 2, .high = {}}));
}

TEST(Constraint, CoversPowersOfTwo) {
  const Constraint power{.low = {}, .high = {}, .power_of_two = true},
      from_one{.low = 1, .high = {}}, above_one{.low = 1, .high = {}, .above = true},
      above_half{.low = 0.5, .high = {}, .above = true};
  const Constraint whole{.low = 1, .high = {}, .integer = true};
  for (const Constraint& one : {from_one, above_half, whole, power})
    EXPECT_TRUE(one.covers(power)) << to_string(one);
  EXPECT_FALSE(above_one.covers(power));
  EXPECT_FALSE(power.covers(whole));
  const Constraint above_zero{.low = 0, .high = {}, .above = true, .power_of_two = true};
  EXPECT_TRUE(from_one.covers(above_zero));
}

TEST(Manifest, ReadsTheHostTransformOfARule) {
  EXPECT_EQ(rule("", "// Words.   host transform: newton_schulz\n").transforms.at(0).host,
            "newton_schulz");
  EXPECT_EQ(rule("", "// Words.\n").transforms.size(), 0U);
}

TEST(Manifest, ReadsWhatComesAfterTheHostTransformOfARule) {
  const Manifest m = rule(R"(struct Slots {
  Signed m;
  NonNegative v;  // torch: exp_avg_sq; after: transformed
};
struct A { real x; };
struct B { real x; };
struct C { real x; };
struct Reductions {
  Sum<tensor, 1, A> a;
  Sum<rows, 1, B> b;    // after: a, transformed
  Sum<tensor, 1, C> c;  // after: b
};
)",
                          "// Words.   host transform: newton_schulz\n");
  EXPECT_EQ(m.slots[0].section, 0);
  EXPECT_EQ(m.slots[1].section, 1);
  EXPECT_EQ(m.reductions[0].section, 0);
  EXPECT_EQ(m.reductions[1].section, 1);
  EXPECT_EQ(m.reductions[1].after, std::vector<int>{0});
  EXPECT_EQ(m.reductions[2].section, 1) << "after one that is";
}

constexpr const char* kTransforms = R"(struct Transforms {
  real first;   // host: one
  real second;  // host: two
};
)";

TEST(Manifest, ReadsSeveralTransformsAndWhatComesAfterEach) {
  const Manifest m = rule(str_cat(kTransforms, R"(struct Slots {
  Signed m;  // after: first
};
struct A { real x; };
struct Reductions {
  Sum<tensor, 1, A> a;  // after: second
};
)"));
  ASSERT_EQ(m.transforms.size(), 2U);
  EXPECT_EQ(m.transforms[1].name, "second");
  EXPECT_EQ(m.transforms[1].host, "two");
  EXPECT_EQ(m.slots[0].section, 1);
  EXPECT_EQ(m.reductions[0].section, 2);
}

TEST(Manifest, RefusesInvalidTransforms) {
  const auto refuses = [](const std::string& body, const std::string& header = "// Words.\n") {
    EXPECT_THROW(rule(body, header), Error) << body;
  };
  refuses("struct Transforms {\n  real x;\n};\n");
  refuses("struct Transforms {\n  float x;  // host: one\n};\n");
  refuses("struct Transforms {\n  real g;  // host: one\n};\n");
  refuses(str_cat(kTransforms, "struct Slots {\n  Signed first;\n};\n"));
  refuses(str_cat(kTransforms, "struct Slots {\n  Signed m;  // after: transformed\n};\n"));
  refuses(kTransforms, "// Words.   host transform: one\n");
  refuses(
      "struct Transforms {\n  real a;  // host: h\n  real b;  // host: h\n  real c;  // host: h\n"
      "  real d;  // host: h\n};\n");
}

TEST(Manifest, ReadsMatricesOfState) {
  const Manifest m = rule(str_cat(kTransforms, R"(struct Hyper {
  double most = 8;  // > 0
};
struct Flags {
  bool wide = false;
};
struct Matrices {
  Matrix<0, 0> left;   // torch: L; initial: 2; largest side: most
  Matrix<0, 1> cross;  // if wide
};
)"));
  ASSERT_EQ(m.matrices.size(), 2U);
  EXPECT_EQ(m.matrices[0].torch_name, "L");
  EXPECT_EQ(m.matrices[0].initial.number, 2);
  EXPECT_EQ(m.matrices[0].largest.value().option, "most");
  EXPECT_EQ(m.matrices[1].columns, 1);
  EXPECT_TRUE(m.matrices[1].condition.has_value());
  EXPECT_FALSE(m.matrices[1].largest.has_value());
}

TEST(Manifest, RefusesInvalidMatrices) {
  const auto refuses = [](const std::string& fields, const std::string& others) {
    EXPECT_THROW(rule(str_cat(others, "struct Matrices {\n  ", fields, "\n};\n")), Error) << fields;
  };
  refuses("Matrix<0, 0> a;", "");  // no transform uses it
  refuses("Matrix<0> a;", kTransforms);
  refuses("Matrix<0, 9> a;", kTransforms);
  refuses("Matrix<0, 0> a;  // largest side: unknown", kTransforms);
  refuses("Matrix<0, 0> a;\n  Matrix<1, 1> a;", kTransforms);
}

TEST(Manifest, ReadsWhetherARuleHasModes) {
  EXPECT_TRUE(rule("", "// Words.   modes: train, eval\n").modes);
  EXPECT_FALSE(rule("", "// Words, which begin with no key: it has modes.\n").modes);
}

TEST(Manifest, ReadsTheInitialStateOfARule) {
  EXPECT_TRUE(rule("", "// Words.   initial state: at construction\n").early_state);
  EXPECT_TRUE(rule("", "// Words.   step number: none\n").no_step_number);
  EXPECT_FALSE(rule("", "// Words.\n").early_state);
  EXPECT_FALSE(rule("", "// Words.\n").no_step_number);
}

TEST(Manifest, NamesFileAndLineOfAnError) {
  EXPECT_EQ(
      hyper_problem("  float lr = 1;"),
      "rules/mine.cuh:5: expected double, Numbers<N>, Nullable or List, found `float lr = 1;` in "
      "`float lr = 1;`");
}

TEST(Manifest, RejectsLinesThatDoNotFollowTheGrammar) {
  for (const char* line : {"double lr;",
                           "double lr = 1",
                           "double lr = 1; double b = 2;",
                           "double lr = inf;",
                           "double lr = nan;",
                           "double lr = 1f;",
                           "double lr = 010;",
                           "double lr = 0x1;",
                           "double lr = 1 / 3;",
                           "double = 1;",
                           "Numbers<2> b = {1};",
                           "Numbers<2> b = 1;",
                           "Numbers<0> b = {};",
                           "Numbers<99999999999> b = {};",
                           "Nullable x = nothing;",
                           "List x = {1};",
                           "double lr = null;",
                           "#define X",
                           "int k = 1;",
                           "double lr = 1;  // => 0",
                           "double lr = 1;  // >= zero",
                           "double lr = 1;  // in [0, 1",
                           "double lr = 1;  // >= 0; > 0",
                           "double lr = 1;  // torch: lr",
                           "double lr = 1;  // \\",
                           "double lr = -1;  // >= 0",
                           "double k = 0.5;  // integer",
                           "Numbers<2> b = {0, 1};  // in [0, 1)",
                           "double dims = 1;",
                           "double a = 1;\ndouble a = 2;"}) {
    EXPECT_TRUE(has(hyper_problem(line), "rules/mine.cuh:")) << line;
  }
}

TEST(Manifest, RejectsStructuresItCannotRead) {
  for (const char* body :
       {"struct Hyper {\n",
        "struct Hyper : Base {\n};\n",
        "struct Hyper;\n",
        "struct Hyper\n{\n};\n",
        "struct Hyper {};\nstruct Hyper {};\n",
        "#if 0\nstruct Hyper {\n};\n#endif\n",
        "struct Flags {\n  Decay d = Decay::a;\n};\n",
        "struct Flags {\n  bool x = 1;\n};\n",
        "enum class D { a };\nstruct Flags {\n  D d = D::b;\n};\n",
        "struct Flags {\n  bool x = false;  // lifted: y\n};\n",
        "struct Flags {\n  bool x = false;  // liftd: true\n};\n",
        "struct Slots {\n  Signed p;\n};\n",
        "struct Slots {\n  Signed m = 0;\n};\n",
        "struct Slots {\n  Signed m;  // if missing\n};\n",
        "struct Slots {\n  Signed m;  // initial: lr\n};\n",
        "struct Slots {\n  NonNegative v;  // initial: -1\n};\n",
        "struct Hyper {\n  double lr = 1;\n};\nstruct Slots {\n  Signed m;  // if lr != 0\n};\n",
        "struct Slots {\n  Signed a;\n  Signed b;\n  Signed c;\n  Signed d;\n  Signed e;\n  Signed "
        "f;\n  Signed h;\n  Signed i;\n  Signed j;\n};\n",
        "struct AuxState {\n  Entry<all> x;\n};\n",
        "struct AuxState {\n  Entry<rows> x;\n};\n",
        "struct AuxState {\n  Entry<rows, float> x;\n};\n",
        "// refuse: true\n",
        "// refuse: x > 0, sentence\n",
        "double x = 1;  // refuse: true, no\n"}) {
    EXPECT_TRUE(has(rule_problem(body), "rules/mine.cuh:")) << body;
  }
}

TEST(Manifest, RejectsReductionsItCannotRead) {
  const std::string structs =
      "struct A { real x; };\nstruct B { real x; };\nstruct Odd { Thing x; };\n";
  for (const char* lines :
       {"Sum<tensor, 1> a;", "Sum<lines, 1, A> a;", "Sum<axis<4>, 1, A> a;", "Sum<tensor, 0, A> a;",
        "Min<tensor, 1, A> a;", "Sum<tensor, 1, Missing> a;", "Sum<tensor, 1, Odd> a;",
        "Sum<tensor, 1, A> a;\nSum<rows, 1, A> b;", "Sum<rows, 1, A> a;\nSum<columns, 1, B> a;",
        "Sum<rows, 1, A> a;  // after: b", "Sum<tensor, 1, B, Entries<rows, A>> b;",
        "Sum<tensor, 1, A> a;\nSum<rows, 1, B, Entries<tensor, A>> b;",
        "Sum<rows, 1, A> a;\nSum<columns, 1, B, Entries<rows, A>> b;"}) {
    const std::string found = rule_problem(structs + "struct Reductions {\n" + lines + "\n};\n");
    EXPECT_TRUE(has(found, "rules/mine.cuh:")) << lines << ": " << found;
  }
}

TEST(Manifest, RejectsIncompleteCodecsAndWeightFormats) {
  EXPECT_TRUE(has(problem([] { codec(""); }), "using Code"));
  EXPECT_TRUE(has(problem([] { codec("using Code = int;\n"); }), "uint8, uint16, real, Nibble"));
  EXPECT_TRUE(has(problem([] { codec("using Code = uint8;\nstruct Meta { float s; };\n"); }),
                  "option `int block`"));
  EXPECT_TRUE(
      has(problem([] { codec("using Code = uint8;\nstruct Options { int block = 64; };\n"); }),
          "power of two in"));
  EXPECT_TRUE(has(problem([] {
                    read_manifest(
                        "namespace jitstep::weights::w {\n using Residual = NoResidual;\n}\n",
                        "weights/w.cuh", Kind::weights);
                  }),
                  "for: float32"));
}

TEST(Manifest, TheNamespaceMustMatchTheFileName) {
  EXPECT_TRUE(has(problem([] { read_manifest("", "rules/mine.cuh", Kind::rule); }),
                  "namespace jitstep::rules::mine"));
  EXPECT_TRUE(has(problem([] {
                    read_manifest("namespace jitstep::rules::yours {\n}\n", "rules/mine.cuh",
                                  Kind::rule);
                  }),
                  "rules/mine.cuh:1: expected `namespace jitstep::rules::mine {`"));
}

TEST(Manifest, IgnoresCode) {
  EXPECT_NO_THROW(rule(R"(/* struct Hyper {
  nonsense */
struct Scalars {
  real x, y;
};
template <Flags F>
struct Rule {
  static Scalars prepare(const Hyper&, int64) { return {1, 2}; }
  static const char* name() { return "struct Hyper { // /*"; }
  struct { int x; } nested;
};
)"));
}

// The reader must accept a damaged file or throw an error. It must not crash.
void read_anything(const std::string& content, const std::string& path) {
  try {
    read_manifest(content, path, kind_of(path));
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with(path + ":")) << error.what();
  }
}

// Each file has another remainder, so that similar files are cut at all places.
TEST(Manifest, SurvivesEveryEighthPrefixOfEveryShippedFile) {
  const TemplateStore store;
  std::size_t first = 0;
  for (const auto& path : shipped()) {
    const std::string content = *store.find(path);
    for (std::size_t size = first++ % 8; size < content.size(); size += 8)
      read_anything(content.substr(0, size), path);
  }
}

TEST(Manifest, SurvivesRandomDamage) {
  const TemplateStore store;
  std::mt19937 random(1);
  const std::string likely = "{}()<>=;,:/*\"'\\\n #ifstruct0-.\0\xff";
  for (const auto& path : shipped()) {
    const std::string content = *store.find(path);
    for (int i = 0; i < 400; ++i) {
      std::string damaged = content;
      for (int edits = 0; edits < 1 + i % 4; ++edits) {
        const std::size_t at = random() % damaged.size();
        if (i % 3 == 0)
          damaged.erase(at, 1 + random() % 9);
        else if (i % 3 == 1)
          damaged[at] = likely[random() % likely.size()];
        else
          damaged.insert(at, 1, static_cast<char>(random() % 256));
        if (damaged.empty()) break;
      }
      read_anything(damaged, path);
    }
  }
}

}  // namespace
}  // namespace jitstep::jit
