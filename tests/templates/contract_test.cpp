// Every compiler rejects what violates the contract: each mistake with one of the compilers, in turn.
// contract_long_test.cpp tries each mistake with the others.
#include "templates/contract.h"

namespace jitstep::jit::contract {
namespace {

INSTANTIATE_TEST_SUITE_P(Mistakes, Contract,
                         ::testing::ValuesIn(mistakes_with(Share::one_compiler)), name_of);

// A rule with its step size in auxiliary state of the tensor, and with a sum over all tensors.
const std::string kWithAuxState = R"(#pragma once
#include "../lang/contract.cuh"
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
    build({.rule = rule, .codec = kCodec, .location = ""}, compiler.target, compiler.cxx);
  } catch (const CompileError& error) {
    const std::string what = error.what();
    return what.substr(0, what.find('\n'));
  }
  return "accepted";
}

// A new value that is returned would be lost.
TEST(Contract, UpdatesReturnNothing) {
  struct Mistake {
    std::string right, wrong, message;
  };
  const Mistake param = {"KHD static void update_param(auto& e, const auto& c) { e.p -= ",
                         "KHD static real update_param(auto& e, const auto& c) { return ",
                         "'static void update_param(auto& e, const auto& c)'"};
  const Mistake state = {"KHD static void update_state(auto& e, const auto&) { e.m.next = ",
                         "KHD static real update_state(auto& e, const auto&) { return ",
                         "'static void update_state(auto& e, const auto& c)'"};
  for (const Mistake& mistake : {param, state}) {
    std::string rule = kWithAuxState;
    rule.replace(rule.find(mistake.right), mistake.right.size(), mistake.wrong);
    for (const Compiler& compiler : compilers()) {
      SCOPED_TRACE(compiler.name);
      const std::string returned = first_line_of(rule, compiler);
      EXPECT_NE(returned.find(mistake.message), std::string::npos) << returned;
    }
  }
}

TEST(ContractOfAuxState, IsNotWrittenToACopy) {
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
  const std::string with_finalize =
      kWithAuxState.substr(0, kWithAuxState.find("struct Scalars")) + sum;
  const auto copied = [](std::string rule) {
    return rule.replace(rule.find("AuxState& m"), 11, "AuxState m");
  };
  for (const Compiler& compiler : compilers()) {
    SCOPED_TRACE(compiler.name);
    EXPECT_EQ(first_line_of(with_finalize, compiler), "accepted");
    const std::string prepared = first_line_of(copied(kWithAuxState), compiler);
    EXPECT_TRUE(prepared.starts_with("rules/odd.cuh:15: ")) << prepared;
    EXPECT_NE(prepared.find("'prepare' takes 'AuxState& m'"), std::string::npos) << prepared;
    const std::string finalized = first_line_of(copied(with_finalize), compiler);
    EXPECT_NE(finalized.find("the reduction 'total' needs 'static Total finalize(Of<Total>, const "
                             "Totals<1>& sums, int64 count, const auto& c, AuxState& m)'"),
              std::string::npos)
        << finalized;
  }
}

TEST(ContractOfSumsOverAll, FinalizeCannotReadAuxStateOfATensor) {
  std::string scalars = kWithAuxState, memory = kWithAuxState;
  const std::string sum = "static_cast<real>(sum[0])", last = "int64, const auto& c)";
  scalars.replace(scalars.find(sum), sum.size(), "c.size * " + sum);
  memory.replace(memory.find(last), last.size(), "int64, const auto& c, AuxState& m)");
  for (const Compiler& compiler : compilers()) {
    SCOPED_TRACE(compiler.name);
    EXPECT_EQ(first_line_of(kWithAuxState, compiler), "accepted");
    const std::string read = first_line_of(scalars, compiler);
    EXPECT_TRUE(read.starts_with("rules/odd.cuh:22: ")) << read;
    EXPECT_NE(
        read.find(
            "`prepare` reads a tensor's AuxState. A `finalize` over `all` has none: return the "
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

TEST(OriginalTextsOfTheContract, IsFulfilledByTheOriginalTexts) {
  EXPECT_NO_THROW(build({}, Target::emulated(), ""));
  for (const Compiler& compiler : compilers())
    EXPECT_NO_THROW(build({}, compiler.target, compiler.cxx)) << compiler.name;
}

}  // namespace
}  // namespace jitstep::jit::contract
