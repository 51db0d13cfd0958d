// A rule or codec that leaves its contract is refused by every compiler, and the first line of the error
// says where and what.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <tuple>

#include "jit/fixtures.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/unit.h"
#include "support/compilers.h"

namespace jitstep::jit {
namespace {

// A rule that uses all of the contract: two sums, the first of which the moments read.
const std::string kRule = R"(// modes: train, eval
// host transform: halved
#pragma once
#include "../core/contract.cuh"
namespace jitstep::rules::odd {
struct Hyper {
  double lr = 1e-3;
  double decay = 0;
};
struct Slots {
  Signed m;
};
struct Scalars { real lr; };
struct First { real norm; };
struct Second { real norm; };
struct Reductions {
  Sum<tensor, 1, First> first;    // update_state
  Sum<tensor, 1, Second> second;  // after: first
};
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) { return {static_cast<real>(h.lr)}; }
  KHD static real size(const Totals<1>& sum) { return static_cast<real>(sqrt(sum[0])); }
  KHD static Reals<1> terms(Of<First>, const auto& e, const auto&) { return {e.g * e.g}; }
  KHD static First finalize(Of<First>, const Totals<1>& sum, int64, const auto&) { return {size(sum)}; }
  KHD static void update_state(auto& e, const auto& c) { e.m.next = e.m.prev + e.g * c.first.norm; }
  KHD static Reals<1> terms(Of<Second>, const auto& e, const auto&) { return {e.m.next}; }
  KHD static Second finalize(Of<Second>, const Totals<1>& sum, int64, const auto& c) {
    return {c.first.norm + size(sum)};
  }
  KHD static real transformed(const auto& e, const auto& c) { return e.m.next * c.second.norm + e.p; }
  KHD static void update_param(auto& e, const auto& c) { e.p -= c.lr * e.m.next * c.second.norm; }
  KHD static void eval(auto& e, const auto& c) { e.p += c.lr * e.m.prev; }
  KHD static void train(auto& e, const auto& c) { e.p -= c.lr * e.m.prev; }
};
}
)";

const std::string kCodec = R"(#pragma once
#include "../core/absmax.cuh"
namespace jitstep::codecs::even {
struct Options {
  int block = 64;  // power of two in [32, 1024]
};
using Code = uint8;
struct Meta {
  float scale;
};
template <class Sign, Options O> struct Codec {
  using Code = even::Code;
  using Meta = even::Meta;
  static constexpr int block = O.block;
  static constexpr int keys = 1;
  static constexpr bool random = false;
  KHD static uint32 key(real x, int) { return magnitude_key(static_cast<float>(x)); }
  KHD static Meta measure(const uint32 (&key)[1]) { return {float_of(key[0])}; }
  KHD static real decode(Code code, const Meta& meta) { return meta.scale * static_cast<float>(code); }
  KHD static Code encode(real x, const Meta&, uint32) { return x < 0 ? 0 : 1; }
};
}
)";

struct Mistake {
  const char* name;
  const char* right;  // a part of the rule or codec, and what stands there instead
  const char* wrong;
  std::vector<const char*> words;  // of the first line, whoever compiles
  const char* at = nullptr;        // where the line points to, if not to `right`
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

const std::vector<Mistake>& mistakes() {
  constexpr auto kRuleBegins = "struct Rule", kCodecBegins = "struct Codec {";
  static const std::vector<Mistake> all = {
      // ---- reading what is not there yet
      {"ReadsASlotBeforeMoments",
       "{ return {e.g * e.g}; }",
       "{ return {e.m.next}; }",
       {"PreviousSlot", "next",
        "`next` is set by `update_state`, which waits for a reduction marked so"}},
      {"ReadsAResultOfALaterReduction",
       "const auto&) { return {e.g * e.g}; }",
       "const auto& c) { return {c.second.norm}; }",
       {"LaterResult", "norm", "order them with `after:`, or mark it `update_state`"}},
      {"ReadsItsOwnResultInTerms",
       "const auto&) { return {e.m.next}; }",
       "const auto& c) { return {c.second.norm}; }",
       {"LaterResult", "norm"}},
      {"ReadsAResultThatMomentsDoNotWaitFor",
       "e.g * c.first.norm",
       "e.g * c.second.norm",
       {"LaterResult", "norm"}},
      {"ReadsALaterResultInFinish",
       "{c.first.norm + size(sum)}",
       "{c.second.norm + size(sum)}",
       {"LaterResult", "norm"}},
      // ---- names
      {"ReadsAScalarThatPrepareDoesNotReturn",
       "e.p -= c.lr *",
       "e.p -= c.rate *",
       {"rate", "`c` holds what `prepare` returns and the results of reductions"}},
      {"ReadsAnOptionThatIsNoScalar",
       "e.p -= c.lr *",
       "e.p -= c.decay *",
       {"decay", "`c` holds what `prepare` returns"}},
      {"ReadsAReductionThatIsNotDeclared",
       "e.g * c.first.norm",
       "e.g * c.third.norm",
       {"third", "and the results of reductions"}},
      {"ReadsAFieldThatAResultDoesNotHave",
       "e.m.next * c.second.norm",
       "e.m.next * c.second.size",
       {"Second", "size"}},
      {"ReadsASlotThatIsNotDeclared",
       "c.lr * e.m.next",
       "c.lr * e.v.next",
       {"no member", "v", "`e` holds p, g and the slots"}},
      {"ReadsAFieldThatSlotsDoNotHave", "c.lr * e.m.next", "c.lr * e.m.after", {"after", "Slot"}},
      {"MisspellsAnOptionInPrepare",
       "static_cast<real>(h.lr)",
       "static_cast<real>(h.learning_rate)",
       {"Hyper", "learning_rate"}},
      {"FinishesAReductionThatIsNotDeclared",
       "Second finalize(Of<Second>",
       "Third finalize(Of<Third>",
       {"Third"}},
      // ---- writing
      {"WritesTheGradient",
       "{ e.p -= c.lr",
       "{ e.g = 0; e.p -= c.lr",
       {"`update_state` sets each slot's `next`, its `update_param` e.p"}},
      {"WritesTheParameterInMoments",
       "{ e.m.next = e.m.prev",
       "{ e.p = 0; e.m.next = e.m.prev",
       {"its `update_param` e.p"}},
      {"WritesTheOldState",
       "{ e.m.next = e.m.prev",
       "{ e.m.prev = 0; e.m.next = e.m.prev",
       {"`update_state` sets each slot's `next`"}},
      {"WritesTheNewStateInApply",
       "{ e.p -= c.lr",
       "{ e.m.next = 0; e.p -= c.lr",
       {"`update_state` sets each slot's `next`"}},
      {"WritesAnOption",
       "{ return {static_cast<real>(h.lr)}; }",
       "{ h.lr = 0; return {real(0)}; }",
       {"its `update_param` e.p"}},
      {"WritesACopyInApply",
       "static void update_param(auto& e,",
       "static void update_param(auto e,",
       {"the rule needs 'static void update_param(auto& e, const auto& c)'"},
       kRuleBegins},
      {"WritesACopyInMoments",
       "static void update_state(auto& e,",
       "static void update_state(auto e,",
       {"the rule has slots: it needs 'static void update_state(auto& e, const auto& c)'"},
       kRuleBegins},
      {"WritesACopyInTrain",
       "static void train(auto& e,",
       "static void train(auto e,",
       {"it needs 'static void train(auto& e, const auto& c)'"},
       kRuleBegins},
      {"WritesACopyInTheBody",
       "{ e.p -= c.lr",
       "{ auto f = e; f.p -= c.lr",
       {"`e` is not copied: what is written to a copy is lost"}},
      {"SetsASlotItself",
       "{ e.m.next = e.m.prev",
       "{ e.m = e.m.prev",
       {"name the member that is meant: e.SLOT.prev, e.SLOT.next or c.RESULT.FIELD"}},
      {"ReadsASlotItself",
       "c.lr * e.m.next",
       "c.lr * e.m",
       {"name the member that is meant: e.SLOT.prev, e.SLOT.next or c.RESULT.FIELD"}},
      // ---- between steps
      {"ReadsTheGradientInEval",
       "e.p += c.lr * e.m.prev",
       "e.p += c.lr * e.g",
       {"no member", "g", "`eval` and `train` have p and what slots were in `e`"}},
      {"ReadsANewSlotInTrain",
       "e.p -= c.lr * e.m.prev",
       "e.p -= c.lr * e.m.next",
       {"no member", "next", "`eval` and `train` have p and what slots were in `e`"}},
      {"ReadsAResultInEval",
       "e.p += c.lr * e.m.prev",
       "e.p += c.first.norm * e.m.prev",
       {"no member", "first", "in `c` what `prepare` returns"}},
      {"WritesASlotInTrain",
       "e.p -= c.lr * e.m.prev",
       "e.m.prev = 0; e.p -= c.lr",
       {"its `update_param` e.p"}},
      {"HasNoEval",
       "static void eval(",
       "static void evaluate(",
       {"the rule declares modes: it needs 'static void eval(auto& e, const auto& c)'"},
       kRuleBegins},
      {"HasNoTrain",
       "static void train(",
       "static void training(",
       {"the rule declares modes: it needs 'static void train(auto& e, const auto& c)'"},
       kRuleBegins},
      // ---- host transforms
      {"ReadsWhatTheStageMakesInTerms",
       "{ return {e.g * e.g}; }",
       "{ return {e.transformed}; }",
       {"no member",
        "e.transformed is for `update_param`, of a rule that declares a host transform"}},
      {"ReadsWhatTheStageMakesForIt",
       "return e.m.next * c.second.norm + e.p",
       "return e.transformed",
       {"no member",
        "e.transformed is for `update_param`, of a rule that declares a host transform"}},
      {"WritesWhatTheStageMakes",
       "{ e.p -= c.lr",
       "{ e.transformed = 0; e.p -= c.lr",
       {"its `update_param` e.p"}},
      {"HasNoStaged",
       "static real transformed(",
       "static real transform(",
       {"the rule declares a host transform: it needs 'static real transformed(const auto& e, "
        "const auto& "
        "c)'"},
       kRuleBegins},
      // ---- what a rule needs
      {"HasNoApply",
       "static void update_param(",
       "static void applied(",
       {"the rule needs 'static void update_param(auto& e, const auto& c)'"},
       kRuleBegins},
      {"HasAnApplyOfOneArgument",
       "static void update_param(auto& e, const auto& c) {",
       "static void update_param(auto& e) { struct { real lr; Second second; } c{};",
       {"the rule needs 'static void update_param(auto& e, const auto& c)'"},
       kRuleBegins},
      {"HasNoMoments",
       "static void update_state(",
       "static void update_states(",
       {"the rule has slots: it needs 'static void update_state(auto& e, const auto& c)'"},
       kRuleBegins},
      {"HasAPrepareOfOneArgument",
       "prepare(const Hyper& h, int64)",
       "prepare(const Hyper& h)",
       {"'prepare' takes 'const Hyper& h, int64 t', then perhaps 'AuxState& m'"},
       kRuleBegins},
      {"ReturnsANumberFromPrepare",
       "Scalars prepare(const Hyper& h, int64) { return {static_cast<real>(h.lr)}; }",
       "real prepare(const Hyper& h, int64) { return static_cast<real>(h.lr); }",
       {"'prepare' returns a structure of scalars"},
       kRuleBegins},
      {"HasNoTerms",
       "terms(Of<Second>",
       "term(Of<Second>",
       {"the reduction 'second' needs 'static Reals<1> terms(Of<Second>, const auto& e, const "
        "auto& c)'"},
       kRuleBegins},
      {"ReturnsAnotherNumberOfTerms",
       "Reals<1> terms(Of<Second>, const auto& e, const auto&) { return {e.m.next}; }",
       "Reals<2> terms(Of<Second>, const auto& e, const auto&) { return {e.m.next, e.p}; }",
       {"the reduction 'second' needs 'static Reals<1> terms(Of<Second>, "},
       kRuleBegins},
      {"HasNoFinish",
       "finalize(Of<Second>",
       "finis(Of<Second>",
       {"the reduction 'second' needs 'static Second finalize(Of<Second>, const Totals<1>& sums, "
        "int64 count, "
        "const auto& c)'"},
       kRuleBegins},
      {"ReturnsAnotherResult",
       "KHD static First finalize(Of<First>, const Totals<1>& sum, int64, const auto&) { return "
       "{size(sum)}; }",
       "KHD static real finalize(Of<First>, const Totals<1>& sum, int64, const auto&) { return "
       "size(sum); }",
       {"the reduction 'first' needs 'static First finalize(Of<First>, "},
       kRuleBegins},
      // ---- what a rule may not use
      {"TakesTheAddressOfItsElement",
       "c.lr * e.m.next",
       "c.lr * (&e)[1].m.next",
       {"&", "`e` is one element, without neighbours"}},
      {"ReadsAnElementByIndex", "c.lr * e.m.next", "c.lr * e.g[1]", {""}},
      {"CallsAFunctionOfLibm",
       "c.lr * e.m.next",
       "c.lr * expf(e.m.next)",
       {"`expf` is specific to one compiler and differs between targets"}},
      {"CallsAFunctionOfLibmByItsPlainName",
       "sqrt(sum[0])",
       "hypot(sum[0], 0.5)",
       {"`hypot` is specific to one compiler"}},
      {"CallsTheStandardLibrary", "c.lr * e.m.next", "c.lr * std::exp(e.m.next)", {"std"}},
      {"ForgetsASemicolon",
       "{ e.p -= c.lr * e.m.next * c.second.norm; }",
       "{ e.p -= c.lr * e.m.next * c.second.norm }",
       {"expected"}},
      // ---- codecs
      {"MisspellsAFieldOfMeta",
       "meta.scale * static_cast",
       "meta.size * static_cast",
       {"Meta", "size"}},
      {"WritesTheMetaThatIsRead",
       "{ return meta.scale * static_cast<float>(code); }",
       "{ meta.scale = 1; return 1; }",
       {"a codec's functions return what they make"}},
      {"HasABlockThatIsNotItsOption",
       "static constexpr int block = O.block;",
       "static constexpr int block = 2 * O.block;",
       {"codecs/even.cuh needs 'static constexpr int block = O.block;'"},
       kCodecBegins},
      {"HasNoDecode", "real decode(", "real decoded(", {"decode"}, kCodecBegins},
      {"HasNoEncode", "Code encode(", "Code encoded(", {"encode"}, kCodecBegins},
      {"HasNoMeasure", "Meta measure(", "Meta measured(", {"measure"}, kCodecBegins},
      {"MeasuresWhatIsNoMeta",
       "static Meta measure(const uint32 (&key)[1]) { return {float_of(key[0])}; }",
       "static float measure(const uint32 (&key)[1]) { return float_of(key[0]); }",
       {"Meta"},
       kCodecBegins},
      {"HasAnEncodeOfTwoArguments",
       "encode(real x, const Meta&, uint32)",
       "encode(real x, const Meta&)",
       {"encode"},
       kCodecBegins},
      {"HasABlockThatIsNoConstant",
       "static constexpr int block = O.block;",
       "static const int block;",
       {"constant"}},
      {"DecodesToADouble",
       "static real decode(Code code, const Meta& meta) { return meta.scale",
       "static double decode(Code code, const Meta& meta) { return 1.0 * meta.scale",
       {"codecs/even.cuh needs 'static real decode(Code code, const Meta& meta)'"},
       kCodecBegins},
      {"EncodesToAFloat",
       "static Code encode(",
       "static float encode(",
       {"codecs/even.cuh needs 'static Code encode("},
       kCodecBegins},
      {"DoesNotSayWhetherItIsRandom",
       "static constexpr bool random = false;",
       "",
       {"codecs/even.cuh needs 'static constexpr bool random = false;'"},
       kCodecBegins},
      {"HasNoBlock", "static constexpr int block = O.block;", "", {"block"}, kCodecBegins},
      {"HasNoKeys", "static constexpr int keys = 1;", "", {"keys"}, kCodecBegins},
  };
  return all;
}

struct Case {
  std::string rule = kRule, codec = kCodec;
  std::string place;  // of the mistake
};

// The line of the first `part`, in the text as it was: a mistake keeps the number of lines.
int line_of(const std::string& content, const std::string& part) {
  const auto end = content.begin() + static_cast<std::ptrdiff_t>(content.find(part));
  return 1 + static_cast<int>(std::count(content.begin(), end, '\n'));
}

Case case_of(const Mistake& mistake) {
  Case made;
  for (std::string* content : {&made.rule, &made.codec}) {
    const std::size_t at = content->find(mistake.right);
    if (at == std::string::npos) continue;
    const int line = line_of(*content, mistake.at ? mistake.at : mistake.right);
    made.place = str_cat(content == &made.rule ? "rules/odd.cuh:" : "codecs/even.cuh:", line, ": ");
    content->replace(at, std::string(mistake.right).size(), mistake.wrong);
    break;
  }
  return made;
}

// Builds the rule with the codec as a kernel of its own, by the compiler `cxx` if one is named.
void build(const Case& made, const Target& target, const std::string& cxx) {
  Settings settings = testing::settings_with_nvrtc("");
  if (!cxx.empty()) settings.cxx = cxx;
  Engine engine(settings);
  engine.templates().add("rules/odd.cuh", made.rule);
  engine.templates().add("codecs/even.cuh", made.codec);
  const Catalog catalog(engine.templates());
  KernelSpec spec;
  spec.rule = "odd";
  spec.state.slots = {CodecChoice{"even"}};
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

void PrintTo(const Compiler& compiler, std::ostream* out) { *out << compiler.name; }

// NVRTC and the host compilers that are installed.
std::vector<Compiler> compilers() {
  std::vector<Compiler> all = {{"Nvrtc", Target::cuda(90)}};
  if (!support::gcc().empty()) all.push_back({"Gcc", Target::cpu(), support::gcc()});
  if (!support::clang().empty()) all.push_back({"Clang", Target::cpu(), support::clang()});
  return all;
}

using MistakeFor = std::tuple<Mistake, Compiler>;

class Contract : public ::testing::TestWithParam<MistakeFor> {};

TEST_P(Contract, IsHeld) {
  const auto& [mistake, compiler] = GetParam();
  const Case wrong = case_of(mistake);
  ASSERT_FALSE(wrong.place.empty()) << "nothing has " << mistake.right;
  std::string what;
  try {
    build(wrong, compiler.target, compiler.cxx);
    FAIL() << "it was compiled";
  } catch (const CompileError& error) {
    what = error.what();
  }
  const std::string first = what.substr(0, what.find('\n'));
  RecordProperty("first_line", first);
  EXPECT_TRUE(first.starts_with(wrong.place)) << wrong.place << "\n" << what.substr(0, 4000);
  for (const char* words : mistake.words)
    EXPECT_NE(first.find(words), std::string::npos) << words << "\n" << what.substr(0, 4000);
  EXPECT_LE(first.size(), 240u);
  EXPECT_NE(what.find("compiling odd"), std::string::npos) << "the log follows";
}

std::string name_of(const ::testing::TestParamInfo<MistakeFor>& test) {
  const auto& [mistake, compiler] = test.param;
  return mistake.name + ("For" + compiler.name);
}

INSTANTIATE_TEST_SUITE_P(Mistakes, Contract,
                         ::testing::Combine(::testing::ValuesIn(mistakes()),
                                            ::testing::ValuesIn(compilers())),
                         name_of);

// A rule whose step size is kept in a tensor's memory, and a sum over all tensors.
const std::string kRemembering = R"(#pragma once
#include "../core/contract.cuh"
namespace jitstep::rules::odd {
struct Slots {
  Signed m;
};
struct Scalars { real size; };
struct Norm { real norm; };
struct Reductions {
  Sum<all, 1, Norm> norm;
};
struct AuxState {
  Entry<tensor> size;  // initial: 1
};
struct Rule {
  KHD static Scalars prepare(const auto&, int64, AuxState& m) {
    m.size.next = m.size.prev / 2;
    return {m.size.next};
  }
  KHD static Reals<1> terms(Of<Norm>, const auto& e, const auto& c) { return {c.size * e.g}; }
  KHD static Norm finalize(Of<Norm>, const Totals<1>& sum, int64, const auto& c) {
    return {static_cast<real>(sum[0])};
  }
  KHD static void update_state(auto& e, const auto&) { e.m.next = e.g; }
  KHD static void update_param(auto& e, const auto& c) { e.p -= c.size * c.norm.norm * e.m.next; }
};
}
)";

std::string first_line_of(const std::string& rule, const Compiler& compiler) {
  try {
    build({.rule = rule, .codec = kCodec, .place = ""}, compiler.target, compiler.cxx);
  } catch (const CompileError& error) {
    const std::string what = error.what();
    return what.substr(0, what.find('\n'));
  }
  return "accepted";
}

TEST(ContractOfMemory, IsNotWrittenToACopy) {
  const std::string sum = R"(
struct Total { real total; };
struct Reductions {
  Sum<tensor, 1, Total> total;
};
struct AuxState {
  Entry<tensor> size;
};
struct Rule {
  KHD static Reals<1> terms(Of<Total>, const auto& e, const auto&) { return {e.g}; }
  KHD static Total finalize(Of<Total>, const Totals<1>& sum, int64, const auto&, AuxState& m) {
    m.size.next = static_cast<real>(sum[0]);
    return {m.size.next};
  }
  KHD static void update_state(auto& e, const auto&) { e.m.next = e.g; }
  KHD static void update_param(auto& e, const auto& c) { e.p -= c.total.total * e.m.next; }
};
}
)";
  const std::string finishing = kRemembering.substr(0, kRemembering.find("struct Scalars")) + sum;
  const auto copied = [](std::string rule) {
    return rule.replace(rule.find("AuxState& m"), 11, "AuxState m");
  };
  for (const Compiler& compiler : compilers()) {
    SCOPED_TRACE(compiler.name);
    EXPECT_EQ(first_line_of(finishing, compiler), "accepted");
    const std::string prepared = first_line_of(copied(kRemembering), compiler);
    EXPECT_TRUE(prepared.starts_with("rules/odd.cuh:15: ")) << prepared;
    EXPECT_NE(prepared.find("'prepare' takes 'AuxState& m'"), std::string::npos) << prepared;
    const std::string finished = first_line_of(copied(finishing), compiler);
    EXPECT_NE(finished.find("the reduction 'total' needs 'static Total finalize(Of<Total>, const "
                            "Totals<1>& sums, int64 count, const auto& c, AuxState& m)'"),
              std::string::npos)
        << finished;
  }
}

TEST(ContractOfSumsOverAll, LetsTheirFinishReadNothingThatCameFromATensorsMemory) {
  std::string scalars = kRemembering, memory = kRemembering;
  const std::string sum = "static_cast<real>(sum[0])", last = "int64, const auto& c)";
  scalars.replace(scalars.find(sum), sum.size(), "c.size * " + sum);
  memory.replace(memory.find(last), last.size(), "int64, const auto& c, AuxState& m)");
  for (const Compiler& compiler : compilers()) {
    SCOPED_TRACE(compiler.name);
    EXPECT_EQ(first_line_of(kRemembering, compiler), "accepted");
    const std::string read = first_line_of(scalars, compiler);
    EXPECT_TRUE(read.starts_with("rules/odd.cuh:22: ")) << read;
    EXPECT_NE(
        read.find(
            "`prepare` reads a tensor's AuxState; a `finalize` over `all` has none: return the "
            "sum, and use scalars in `update_param`"),
        std::string::npos)
        << read;
    const std::string taken = first_line_of(memory, compiler);
    EXPECT_NE(taken.find("the reduction 'norm' needs 'static Norm finalize(Of<Norm>"),
              std::string::npos)
        << taken;
    EXPECT_NE(taken.find("without AuxState: it is finished for no tensor"), std::string::npos)
        << taken;
  }
}

TEST(ContractItself, IsKeptByTheTextsThatTheMistakesStartFrom) {
  EXPECT_NO_THROW(build({}, Target::emulated(), ""));
  for (const Compiler& compiler : compilers())
    EXPECT_NO_THROW(build({}, compiler.target, compiler.cxx)) << compiler.name;
}

}  // namespace
}  // namespace jitstep::jit
