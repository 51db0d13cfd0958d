// A rule or codec that changes and is loaded again, with optimizers of both revisions at the same time.
#include "jit/base/text.h"
#include "optim/training.h"

namespace jitstep::tests {
namespace {

using jit::str_cat;

// Adds `step` to each parameter, and has a slot with this name.
std::string drifting(const std::string& step, const std::string& slot) {
  return str_cat(
      "#pragma once\n#include \"../lang/contract.cuh\"\nnamespace jitstep::rules::drifting {\n",
      "struct Slots {\n  Signed ", slot, ";\n};\nstruct Rule {\n",
      "  KHD static void update_state(auto& e, const auto&) { e.", slot, ".next = real(1); }\n",
      "  KHD static void update_param(auto& e, const auto&) { e.p += ", step, "; }\n};\n}\n");
}

// A codec that decodes every value as `value`.
std::string fixed8(const std::string& value) {
  return str_cat(
      "#pragma once\n#include \"../lang/contract.cuh\"\nnamespace jitstep::codecs::fixed8 {\n",
      "using Code = uint8;\ntemplate <class Sign>\nstruct Codec {\n",
      "  using Code = fixed8::Code;\n  using Meta = NoMeta;\n",
      "  static constexpr int block = 1;\n  static constexpr bool random = false;\n",
      "  KHD static real decode(Code, const Meta&) { return real(", value, "); }\n",
      "  KHD static Code encode(real, const Meta&, uint32) { return 0; }\n};\n}\n");
}

torch::Tensor zeros() {
  auto p = torch::zeros({10}).requires_grad_();
  p.mutable_grad() = torch::zeros({10});
  return p;
}

double value(const torch::Tensor& p) { return p[0].item<double>(); }

TEST(ReloadedRule, AppliesOnlyToLaterOptimizers) {
  load_rule(own_file("drifting.cuh", drifting("1", "m")));
  const auto p = zeros(), late = zeros(), q = zeros();
  Optimizer old("drifting", std::vector<torch::Tensor>{p});
  old.step();
  EXPECT_EQ(load_rule(own_file("drifting.cuh", drifting("-3", "v"))), "drifting");
  Optimizer fresh("drifting", std::vector<torch::Tensor>{q});
  old.add_param_group(torch::optim::OptimizerParamGroup({late}));
  for (int step = 0; step < 2; ++step) {
    old.step();
    fresh.step();
  }
  EXPECT_EQ(value(p), 3);
  EXPECT_EQ(value(late), 2) << "it was resolved and compiled after the change";
  EXPECT_EQ(value(q), -6);
  EXPECT_TRUE(old.formats_of(late).slots.contains("m"));
  EXPECT_TRUE(fresh.formats_of(q).slots.contains("v"));
  const auto& state = static_cast<ParamState&>(*old.state().at(p.unsafeGetTensorImpl()));
  EXPECT_TRUE(torch::equal(state.value("m"), torch::ones({10})));
}

TEST(ReloadedRule, IsNotMixedWithItsOldRevisionInOneOptimizer) {
  load_rule(own_file("drifting.cuh", drifting("2", "a")));
  Optimizer old("drifting", std::vector<torch::Tensor>{zeros()});
  load_rule(own_file("drifting.cuh", drifting("2", "b")));
  Optimizer fresh("drifting", std::vector<torch::Tensor>{zeros()});
  const auto options = [&] { return fresh.param_groups()[0].options().clone(); };
  EXPECT_HAS(argument_error([&] {
               old.add_param_group({{zeros()}, options()});
             }),
             "are of another version of drifting");
}

TEST(ReloadedRule, ContinuesThroughArchivesInItsOwnRevision) {
  load_rule(own_file("drifting.cuh", drifting("4", "c")));
  const auto p = zeros(), q = zeros();
  Optimizer one("drifting", std::vector<torch::Tensor>{p});
  Optimizer other("drifting", std::vector<torch::Tensor>{q});
  one.step();
  load_rule(own_file("drifting.cuh", drifting("5", "d")));
  copy_through_archive(one, other);
  other.step();
  EXPECT_EQ(value(q), 4);
  const auto& state = static_cast<ParamState&>(*other.state().at(q.unsafeGetTensorImpl()));
  EXPECT_EQ(state.step(), 2);
  EXPECT_TRUE(torch::equal(state.value("c"), torch::ones({10})));
}

// A rule with these slots, in this order. Each slot keeps its value, which is `begin` after the first step. p gets
// their sum.
std::string keeping(const std::vector<std::string>& slots) {
  std::string declared, moved, sum;
  for (const std::string& slot : slots) {
    const std::string begin = slot == "a" ? "-3" : slot == "b" ? "5" : "0";
    declared += str_cat("  ", slot == "b" ? "NonNegative " : "Signed ", slot, ";\n");
    moved += str_cat(" e.", slot, ".next = c.first ? real(", begin, ") : e.", slot, ".prev;");
    sum += str_cat(" + ", slot == "a" ? "100 * " : "", "e.", slot, ".next");
  }
  return str_cat(
      "#pragma once\n#include \"../lang/contract.cuh\"\nnamespace jitstep::rules::keeping {\n",
      "struct Slots {\n", declared, "};\nstruct Scalars { bool first; };\nstruct Rule {\n",
      "  KHD static Scalars prepare(const auto&, int64 t) { return {t == 1}; }\n",
      "  KHD static void update_state(auto& e, const auto& c) {", moved, " }\n",
      "  KHD static void update_param(auto& e, const auto&) { e.p = real(0)", sum, "; }\n};\n}\n");
}

class ReloadedStateIn : public ::testing::TestWithParam<const char*> {};

// The later revision reorders the slots, adds one and drops one.
TEST_P(ReloadedStateIn, KeepsItsSlotsByName) {
  const auto options = [] { return GenericOptions().state(GetParam()).min_quantized_size(0); };
  load_rule(own_file("keeping.cuh", keeping({"a", "b", "left"})));
  const auto p = zeros(), q = zeros();
  Optimizer old("keeping", std::vector<torch::Tensor>{p}, options());
  old.step();
  EXPECT_EQ(value(p), -295);
  load_rule(own_file("keeping.cuh", keeping({"b", "late", "a"})));
  Optimizer fresh("keeping", std::vector<torch::Tensor>{q}, options());
  fresh.state()[q.unsafeGetTensorImpl()] = old.state().at(p.unsafeGetTensorImpl())->clone();
  for (int step = 0; step < 2; ++step) {
    fresh.step();
    EXPECT_EQ(value(q), -295) << step;
  }
  const auto& state = static_cast<ParamState&>(*fresh.state().at(q.unsafeGetTensorImpl()));
  EXPECT_EQ(state.step(), 3);
  EXPECT_EQ(value(state.value("a")), -3);
  EXPECT_EQ(value(state.value("b")), 5);
  EXPECT_EQ(value(state.value("late")), 0);
}

// signed_scale restores the largest magnitude exactly, whatever its sign.
INSTANTIATE_TEST_SUITE_P(Codecs, ReloadedStateIn,
                         ::testing::Values("fp32", "bf16",
                                           R"({"codec": "int8", "signed_scale": true})"));

TEST(ReloadedState, MadeByTheProgramKeepsTheSlotsOfItsRevision) {
  load_rule(own_file("keeping.cuh", keeping({"a", "b"})));
  auto made = std::make_unique<ParamState>("keeping");
  made->step() = 1;
  made->set_value("a", torch::full({10}, -3.0f));
  made->set_value("b", torch::full({10}, 5.0f));
  load_rule(own_file("keeping.cuh", keeping({"b", "a"})));
  const auto p = zeros();
  Optimizer fresh("keeping", std::vector<torch::Tensor>{p});
  fresh.state()[p.unsafeGetTensorImpl()] = std::move(made);
  fresh.step();
  EXPECT_EQ(value(p), -295);
}

TEST(ReloadedState, WithNegativeValuesIsRejectedIfTheSlotBecameNonNegative) {
  load_rule(own_file("keeping.cuh", keeping({"a"})));
  const auto p = zeros(), q = zeros();
  Optimizer old("keeping", std::vector<torch::Tensor>{p});
  old.step();
  std::string unsigned_a = keeping({"a"});
  unsigned_a.replace(unsigned_a.find("Signed a"), 8, "NonNegative a");
  load_rule(own_file("keeping.cuh", unsigned_a));
  Optimizer fresh("keeping", std::vector<torch::Tensor>{q});
  fresh.state()[q.unsafeGetTensorImpl()] = old.state().at(p.unsafeGetTensorImpl())->clone();
  EXPECT_HAS(argument_error([&] { fresh.step(); }), "the slot a: some are negative");
}

TEST(ReloadedCodec, AppliesOnlyToLaterOptimizers) {
  load_rule(own_file("drifting.cuh", drifting("e.m.prev", "m")));
  load_codec(own_file("fixed8.cuh", fixed8("3")));
  const auto p = zeros(), late = zeros(), q = zeros();
  Optimizer old("drifting", std::vector<torch::Tensor>{p}, GenericOptions().state("fixed8"));
  old.step();
  load_codec(own_file("fixed8.cuh", fixed8("7")));
  Optimizer fresh("drifting", std::vector<torch::Tensor>{q}, GenericOptions().state("fixed8"));
  old.add_param_group(torch::optim::OptimizerParamGroup({late}));
  for (int step = 0; step < 2; ++step) {
    old.step();
    fresh.step();
  }
  EXPECT_EQ(value(p), 6) << "3 in each step except the first";
  EXPECT_EQ(value(late), 3);
  EXPECT_EQ(value(q), 7);
}

}  // namespace
}  // namespace jitstep::tests
