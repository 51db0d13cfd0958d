#include "jit/manifest/option_layout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "jit/base/text.h"
#include "jit/manifest/manifest_reader.h"
#include "jitstep/hyper_params.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/layout.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {
namespace {

using Type = Option::Type;

class OptionLayouts : public ::testing::Test {
 protected:
  OptionLayout of(const std::string& rule) {
    return OptionLayout(catalog_.rule(rule), catalog_.gradient());
  }
  // True if a change of the number changes nothing else.
  bool is_independent(const std::string& rule, const std::string& name) {
    const OptionLayout layout = of(rule);
    return layout.independent_numbers()[layout.find(name)->index] != nullptr;
  }

  TemplateStore store_;
  Catalog catalog_{store_};
};

// A value of the option's type that is not its default.
Value other_value(const Option& option) {
  switch (option.type) {
    case Type::number:
      return option.initial.number() + 1;
    case Type::nullable:
      return option.initial.is_null() ? Value(0.5) : Value();
    case Type::numbers:
      return Value::Numbers(static_cast<std::size_t>(option.count), 0.625);
    case Type::list:
      return Value::Numbers{0.25, 0.5};
    case Type::boolean:
      return !option.initial.boolean();
    case Type::choice:
      break;
  }
  return option.choices[option.choices[0] == option.initial.choice() ? 1 : 0];
}

TEST_F(OptionLayouts, StoreEveryOptionOfEveryRuleApartFromAllOthers) {
  for (const std::string& rule : catalog_.names(Manifest::Kind::rule)) {
    SCOPED_TRACE(rule);
    const OptionLayout layout = of(rule);
    for (const PackedOption& one : layout.options) {
      SCOPED_TRACE(one.option->name);
      PackedValues all = layout.defaults;
      EXPECT_EQ(one.value(all), one.option->initial);
      one.set(all, other_value(*one.option));
      EXPECT_EQ(one.value(all), other_value(*one.option));
      for (const PackedOption& other : layout.options) {
        if (&other == &one) continue;
        EXPECT_EQ(other.value(all), other.option->initial) << other.option->name;
      }
    }
  }
}

TEST_F(OptionLayouts, BeginWithTheHyperparametersOfKernels) {
  const OptionLayout layout = of("adamw");
  PackedValues all = layout.defaults;
  layout.find("betas")->set(all, Value::Numbers{0.5, 0.75});
  layout.find("max_grad_norm")->set(all, 3);
  EXPECT_EQ(all[kCommonHyper + 1], 0.5);
  EXPECT_EQ(all[kCommonHyper + 2], 0.75);
  EXPECT_EQ(all[2], 3) << "a common option";
}

TEST_F(OptionLayouts, LeaveACommonOptionThatTheRuleHidesAtItsDefault) {
  const OptionLayout layout = of("nvlamb");
  PackedValues all = layout.defaults;
  const double common = all[2];
  layout.find("max_grad_norm")->set(all, 17);
  EXPECT_EQ(all[2], common);
}

TEST_F(OptionLayouts, DistinguishNullFromNaN) {
  const OptionLayout layout = of("adamw");
  const PackedOption& one = *layout.find("clipping_threshold");
  PackedValues all = layout.defaults;
  one.set(all, std::nan(""));
  EXPECT_FALSE(one.value(all).is_null());
  one.set(all, Value());
  EXPECT_TRUE(one.value(all).is_null());
  EXPECT_TRUE(std::isnan(all[one.index])) << "as rules read null";
}

TEST_F(OptionLayouts, KnowTheNumbersThatNothingElseDependsOn) {
  EXPECT_TRUE(is_independent("adamw", "lr"));
  EXPECT_TRUE(is_independent("adamw", "betas"));
  EXPECT_FALSE(is_independent("adamw", "clipping_threshold")) << "a flag reads it";
  EXPECT_FALSE(is_independent("sgd", "momentum")) << "a flag and a restriction read it";
  EXPECT_FALSE(is_independent("adagrad", "initial_accumulator_value")) << "a slot starts from it";
  EXPECT_FALSE(is_independent("adamw", "grad_scale")) << "a flag of the common options reads it";
  EXPECT_FALSE(is_independent("soap", "max_precondition_dim")) << "matrices of state read it";
}

// The kernel, flags and bytes of state of a parameter of these sizes. Empty if the rule does not support it.
std::string description(const OptionValues& values, const std::vector<std::int64_t>& sizes) try {
  const Shape shape{sizes, {}};
  const Plan plan = resolve(
      values, Formats(), {Dtype::float32, static_cast<int>(sizes.size()), shape.elements(), sizes});
  const StateLayout layout = state_layout(plan, shape, initial_aux_state(plan, values));
  return str_cat(plan.name, " ", to_string(values.flags_for(sizes)), " ", layout.bytes());
} catch (const Error&) {
  return {};
}

TEST_F(OptionLayouts, NumbersThatNothingElseDependsOnChangeNoKernelAndNoMemory) {
  int changes = 0;
  for (const std::string& rule : default_catalog().names(Manifest::Kind::rule))
    for (const Option& option : default_catalog().rule(rule).hyper) {
      if (option.type == Type::list || !is_independent(rule, option.name)) continue;
      const OptionValues before(rule);
      OptionValues after = before;
      after.set(option.name, option.type == Type::number ? Value(3.0) : other_value(option));
      if (option.type == Type::number && !option.constraint.accepts(3.0)) continue;
      for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{8, 12}, {20}}) {
        EXPECT_EQ(description(before, sizes), description(after, sizes))
            << rule << " " << option.name;
        changes += !description(before, sizes).empty();
      }
    }
  EXPECT_GT(changes, 200);
}

constexpr const char* kLists = R"(#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::listing {
struct Hyper {
  double lr = 1;
  List first = {};   // >= 0
  List second = {};  // >= 0
};
struct Flags {
  bool on = false;
};
struct Rule {
  KHD static void update_param(auto&, const auto&) {}
};
}
)";

TEST_F(OptionLayouts, StoreSeveralListsOneAfterTheOther) {
  const Manifest rule = read_manifest(kLists, "rules/listing.cuh", Manifest::Kind::rule);
  OptionValues values(rule, catalog_.gradient());
  const Value::Numbers three = {1, 2, 3}, one = {7}, none;
  values.set("second", one);
  values.set("first", three);
  values.set("on", true);
  EXPECT_EQ(values.get("first"), Value(three));
  EXPECT_EQ(values.get("second"), Value(one));
  values.set("first", none);
  EXPECT_EQ(values.get("first"), Value(none));
  EXPECT_EQ(values.get("second"), Value(one));
  EXPECT_EQ(values.get("on"), Value(true));
  values.set("first", 1.5);  // what C++ makes of {{1.5}}
  EXPECT_EQ(values.get("first"), Value(Value::Numbers{1.5}));
}

}  // namespace
}  // namespace jitstep::jit
