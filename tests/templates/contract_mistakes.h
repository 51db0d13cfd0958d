// A rule and a codec that use every part of the contract, and the mistakes that violate it.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace jitstep::jit::contract {

// A rule that uses every part of the contract: two sums, of which `update_state` reads the first, and a slot and a sum
// after a host transform.
inline const std::string kRule = R"(// modes: train, eval
// host transform: halved
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::odd {
struct Hyper {
  double lr = 1e-3;
  double decay = 0;
};
struct Slots {
  Signed m;
  Signed late;  // after: transformed
};
struct Inputs {
  Input noise;
};
struct AuxState {
  Entry<tensor> largest;  // elements
  Entry<tensor> hidden;
};
struct Scalars { real lr; };
struct First { real norm; };
struct Second { real norm; };
struct Third { real norm; };
struct Reductions {
  Sum<tensor, 1, First> first;    // update_state
  Sum<tensor, 1, Second> second;  // after: first
  Sum<tensor, 1, Third> third;    // after: transformed
};
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) { return {static_cast<real>(h.lr)}; }
  KHD static real drawn(const auto& e) {
    return e.noise.given ? e.noise.value : e.largest.prev * uniform_of(e.random(3));
  }
  KHD static real size(const Totals<1>& sum) { return static_cast<real>(sqrt(sum[0])); }
  KHD static Reals<1> terms(Of<First>, const auto& e, const auto&) { return {e.g * e.g}; }
  KHD static First finalize(Of<First>, const Totals<1>& sum, int64, const auto&) { return {size(sum)}; }
  KHD static void update_state(auto& e, const auto& c) { e.m.next = e.m.prev + e.g * c.first.norm; }
  KHD static Reals<1> terms(Of<Second>, const auto& e, const auto&) { return {e.m.next}; }
  KHD static Second finalize(Of<Second>, const Totals<1>& sum, int64, const auto& c) {
    return {c.first.norm + size(sum)};
  }
  KHD static real transformed(const auto& e, const auto& c) {
    return e.m.next * c.second.norm + e.p + drawn(e);
  }
  KHD static void update_state_after(auto& e, const auto& c) {
    e.late.next = e.late.prev + e.transformed * c.second.norm;
  }
  KHD static Reals<1> terms(Of<Third>, const auto& e, const auto&) { return {e.late.next * e.transformed}; }
  KHD static Third finalize(Of<Third>, const Totals<1>& sum, int64, const auto&) { return {size(sum)}; }
  KHD static void update_param(auto& e, const auto& c) { e.p -= c.lr * e.m.next * c.second.norm; }
  KHD static void eval(auto& e, const auto& c) { e.p += c.lr * e.m.prev; }
  KHD static void train(auto& e, const auto& c) { e.p -= c.lr * e.m.prev; }
};
}
)";

inline const std::string kCodec = R"(#pragma once
#include "support/absmax.cuh"
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
  const char* right;  // a part of the rule or codec, and its replacement
  const char* wrong;
  std::vector<const char*> fragments;  // in the first line, for every compiler
  const char* at = nullptr;            // line that the error points to, if not the line of `right`
};

inline void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }

inline const std::vector<Mistake>& mistakes() {
  constexpr auto kRuleBegins = "struct Rule", kCodecBegins = "struct Codec {";
  static const std::vector<Mistake> all = {
      // ---- reading values that do not exist yet
      {"ReadsASlotBeforeMoments",
       "{ return {e.g * e.g}; }",
       "{ return {e.m.next}; }",
       {"PreviousSlot", "next",
        "`update_state` sets `next`, after the reductions marked `update_state`"}},
      {"ReadsAResultOfALaterReduction",
       "const auto&) { return {e.g * e.g}; }",
       "const auto& c) { return {c.second.norm}; }",
       {"LaterResult", "norm", "or its reader `after:`"}},
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
      {"ReturnsMoreTermsThanAreDeclared",
       "terms(Of<First>, const auto& e, const auto&) { return {e.g * e.g}; }",
       "terms(Of<First>, const auto& e, const auto&) { return {e.g * e.g, e.p}; }",
       {"one value for each of the reduction's terms"}},
      // ---- names
      {"ReadsAScalarThatPrepareDoesNotReturn",
       "e.p -= c.lr *",
       "e.p -= c.rate *",
       {"rate", "`c` has `prepare`'s result and the results of reductions"}},
      {"ReadsAnOptionThatIsNoScalar",
       "e.p -= c.lr *",
       "e.p -= c.decay *",
       {"decay", "`c` has `prepare`'s result"}},
      {"ReadsAReductionThatIsNotDeclared",
       "e.g * c.first.norm",
       "e.g * c.fourth.norm",
       {"fourth", "and the results of reductions"}},
      {"ReadsAFieldThatAResultDoesNotHave",
       "e.m.next * c.second.norm",
       "e.m.next * c.second.size",
       {"Second", "size"}},
      {"ReadsASlotThatIsNotDeclared",
       "c.lr * e.m.next",
       "c.lr * e.v.next",
       {"no member", "v", "`e` has p, g and the slots"}},
      {"ReadsAFieldThatSlotsDoNotHave", "c.lr * e.m.next", "c.lr * e.m.after", {"after", "Slot"}},
      {"MisspellsAnOptionInPrepare",
       "static_cast<real>(h.lr)",
       "static_cast<real>(h.learning_rate)",
       {"Hyper", "learning_rate"}},
      {"FinishesAReductionThatIsNotDeclared",
       "Second finalize(Of<Second>",
       "Fourth finalize(Of<Fourth>",
       {"Fourth"}},
      // ---- writing
      {"WritesTheGradient",
       "{ e.p -= c.lr",
       "{ e.g = 0; e.p -= c.lr",
       {"`update_state` sets each slot's `next`, and `update_param` sets e.p"}},
      {"WritesTheParameterInMoments",
       "{ e.m.next = e.m.prev",
       "{ e.p = 0; e.m.next = e.m.prev",
       {"`update_param` sets e.p"}},
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
       {"`update_param` sets e.p"}},
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
       {"`e` cannot be copied: writes to a copy are lost"}},
      {"SetsASlotItself",
       "{ e.m.next = e.m.prev",
       "{ e.m = e.m.prev",
       {"name a member: e.SLOT.prev, e.SLOT.next or c.RESULT.FIELD"}},
      {"ReadsASlotItself",
       "c.lr * e.m.next",
       "c.lr * e.m",
       {"name a member: e.SLOT.prev, e.SLOT.next or c.RESULT.FIELD"}},
      // ---- between steps
      {"ReadsTheGradientInEval",
       "e.p += c.lr * e.m.prev",
       "e.p += c.lr * e.g",
       {"no member", "g", "`e` has p and the slots' `prev`"}},
      {"ReadsANewSlotInTrain",
       "e.p -= c.lr * e.m.prev",
       "e.p -= c.lr * e.m.next",
       {"no member", "next", "`e` has p and the slots' `prev`"}},
      {"ReadsAResultInEval",
       "e.p += c.lr * e.m.prev",
       "e.p += c.first.norm * e.m.prev",
       {"no member", "first", "`c` has `prepare`'s result"}},
      {"WritesASlotInTrain",
       "e.p -= c.lr * e.m.prev",
       "e.m.prev = 0; e.p -= c.lr",
       {"`update_param` sets e.p"}},
      {"HasNoEval",
       "static void eval(",
       "static void evaluate(",
       {"the rule declares modes: it needs 'static void eval(auto& e, const auto& c)'"},
       kRuleBegins},
      {"ReturnsThePointOfEvaluation",
       "static void eval(auto& e, const auto& c) { e.p +=",
       "static real eval(auto& e, const auto& c) { return e.p +",
       {"the rule declares modes: it needs 'static void eval(auto& e, const auto& c)'"},
       kRuleBegins},
      {"ReturnsThePointOfTraining",
       "static void train(auto& e, const auto& c) { e.p -=",
       "static real train(auto& e, const auto& c) { return e.p -",
       {"the rule declares modes: it needs 'static void train(auto& e, const auto& c)'"},
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
       {"no member", "only functions after a host transform read e.transformed"}},
      {"ReadsWhatTheStageMakesForIt",
       "return e.m.next * c.second.norm + e.p + drawn(e)",
       "return e.transformed",
       {"no member", "only functions after a host transform read e.transformed"}},
      {"WritesWhatTheStageMakes",
       "{ e.p -= c.lr",
       "{ e.transformed = 0; e.p -= c.lr",
       {"`update_param` sets e.p"}},
      {"ReadsALateSlotInUpdateState",
       "e.g * c.first.norm",
       "e.late.next * c.first.norm",
       {"PreviousSlot", "next"}},
      {"ReadsALateResultForTheTransform",
       "return e.m.next * c.second.norm + e.p + drawn(e)",
       "return e.m.next * c.third.norm",
       {"LaterResult", "norm"}},
      {"ReadsALateResultForALateSlot",
       "e.transformed * c.second.norm",
       "e.transformed * c.third.norm",
       {"LaterResult", "norm"}},
      {"WritesAnEarlySlotAfterTheTransform",
       "    e.late.next = e.late.prev",
       "    e.m.next = 0; e.late.next = e.late.prev",
       {"`update_state` sets each slot's `next`"}},
      {"HasNoUpdateStateAfter",
       "static void update_state_after(",
       "static void update_state_late(",
       {"the rule has slots after its host transform: it needs 'static void "
        "update_state_after(auto& e, const auto& c)'"},
       kRuleBegins},
      {"HasNoStaged",
       "static real transformed(",
       "static real transform(",
       {"the rule declares a host transform: it needs 'static real transformed(const auto& e, "
        "const auto& "
        "c)'"},
       kRuleBegins},
      // ---- inputs, auxiliary state and random bits of elements
      {"ReadsAnInputThatIsNotDeclared",
       "c.lr * e.m.next",
       "c.lr * e.hessian.value",
       {"no member", "hessian"}},
      {"WritesAnInput",
       "{ e.p -= c.lr",
       "{ e.noise.value = 0; e.p -= c.lr",
       {"`update_param` sets e.p"}},
      {"WritesItsOwnEntry",
       "{ e.p -= c.lr",
       "{ e.largest.prev = 0; e.p -= c.lr",
       {"`update_param` sets e.p"}},
      {"ReadsItsNextEntry", "c.lr * e.m.next", "c.lr * e.largest.next", {"OwnEntry", "next"}},
      {"ReadsAFieldWithoutTheNoteElements",
       "c.lr * e.m.next",
       "c.lr * e.hidden.prev",
       {"no member", "hidden"}},
      {"ReadsAnInputInEval",
       "e.p += c.lr * e.m.prev",
       "e.p += c.lr * e.noise.value",
       {"no member", "noise"}},
      {"DrawsInTrain",
       "e.p -= c.lr * e.m.prev",
       "e.p -= c.lr * uniform_of(e.random(0))",
       {"no member", "random"}},
      // ---- functions that a rule needs
      {"HasNoApply",
       "static void update_param(",
       "static void applied(",
       {"the rule needs 'static void update_param(auto& e, const auto& c)'"},
       kRuleBegins},
      {"TakesACopyOfTheAuxStateInPrepare",
       "prepare(const Hyper& h, int64)",
       "prepare(const Hyper& h, int64, AuxState)",
       {"'prepare' takes 'AuxState& m': what it writes to a copy is lost"},
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
       {"'prepare' takes 'const Hyper& h, int64 t', then perhaps 'const Sizes& size', then perhaps "
        "'AuxState& m'"},
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
        "const auto& c, AuxState& m)'"},
       kRuleBegins},
      {"ReturnsAnotherResult",
       "KHD static First finalize(Of<First>, const Totals<1>& sum, int64, const auto&) { return "
       "{size(sum)}; }",
       "KHD static real finalize(Of<First>, const Totals<1>& sum, int64, const auto&) { return "
       "size(sum); }",
       {"the reduction 'first' needs 'static First finalize(Of<First>, "},
       kRuleBegins},
      // ---- features that a rule may not use
      {"TakesTheAddressOfItsElement",
       "c.lr * e.m.next",
       "c.lr * (&e)[1].m.next",
       {"&", "`e` is one element, without neighbors"}},
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
       {"a codec's functions return results"}},
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
      {"MeasuresFromAuxiliaryStateOfRows",
       "template <class Sign, Options O> struct Codec {\n"
       "  using Code = even::Code;\n  using Meta = even::Meta;\n",
       "struct Row { real x; };\nstruct Reductions {\n  Max<rows, 1, Row> row;\n};\n"
       "struct AuxState {\n  Entry<rows> row;\n};\n"
       "template <class Sign, Options O> struct Codec {\n"
       "  using Code = even::Code;\n  using Meta = even::Meta;\n"
       "  KHD static Reals<1> terms(Of<Row>, real x) { return {abs(x)}; }\n"
       "  KHD static Row finalize(Of<Row>, const Totals<1>& t, int64, AuxState& m) {\n"
       "    return {m.row.next = static_cast<real>(t[0])};\n  }\n"
       "  KHD static Meta measure(const uint32 (&key)[1], const AuxState& m) {\n"
       "    return {float_of(key[0]) / static_cast<float>(m.row.next)};\n  }\n"
       "  KHD static real decode(Code code, const Meta&, const AuxState&) {\n"
       "    return static_cast<real>(static_cast<int>(code));\n  }\n"
       "  KHD static Code encode(real x, const Meta&, uint32, const AuxState&) {\n"
       "    return x < 0 ? 0 : 1;\n  }\n",
       {"codecs/even.cuh needs 'auxiliary state over tensor only, because measure reads it'"},
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

}  // namespace jitstep::jit::contract
