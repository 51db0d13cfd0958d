// Every number of every shipped rule, outside the range in its manifest, wherever a program can set it.
#include <cmath>
#include <limits>

#include "jitstep/options.h"
#include "optim/training.h"

namespace jitstep::tests {
namespace {

using jit::Option;
using jit::Value;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> invalid_numbers(const jit::Constraint& allowed) {
  std::vector<double> numbers = {std::nan(""), kInfinity, -kInfinity};
  if (allowed.low) numbers.push_back(std::nextafter(*allowed.low, -kInfinity));
  if (allowed.low) numbers.push_back(*allowed.low - 1);
  if (allowed.low && allowed.above) numbers.push_back(*allowed.low);
  if (allowed.high) numbers.push_back(std::nextafter(*allowed.high, kInfinity));
  if (allowed.high) numbers.push_back(*allowed.high + 1);
  if (allowed.high && allowed.below) numbers.push_back(*allowed.high);
  if (allowed.integer) numbers.insert(numbers.end(), {0x1p31, 1e30});
  return numbers;
}

std::vector<double> accepted_bounds(const jit::Constraint& allowed) {
  const auto inside = [&](double bound, double side) {
    return allowed.integer ? bound + side : std::nextafter(bound, side * kInfinity);
  };
  std::vector<double> numbers;
  if (allowed.low) numbers.push_back(allowed.above ? inside(*allowed.low, 1) : *allowed.low);
  if (allowed.high) numbers.push_back(allowed.below ? inside(*allowed.high, -1) : *allowed.high);
  if (allowed.integer && !allowed.high) numbers.push_back(std::numeric_limits<int>::max());
  return numbers;
}

// The values of an option with `number` at one index, with the name that messages use for it.
std::vector<std::pair<std::string, Value>> values_with(const std::string& name,
                                                       const Option& option, double number) {
  if (option.type == Option::Type::number || option.type == Option::Type::nullable)
    return {{name, number}};
  std::vector<std::pair<std::string, Value>> values;
  if (option.type != Option::Type::numbers) return values;
  for (std::size_t i = 0; i < option.initial.numbers().size(); ++i) {
    Value::Numbers numbers = option.initial.numbers();
    if (std::isnan(number) && std::isnan(numbers[i])) continue;  // null, which this number allows
    numbers[i] = number;
    values.emplace_back(name + "[" + std::to_string(i) + "]", numbers);
  }
  return values;
}

// Calls check(rule, option name, name in messages, value) for each number that `choose` returns.
template <class Choose, class Check>
int for_numbers(Choose choose, Check check) {
  int count = 0;
  for (const std::string& rule : shipped(jit::Manifest::Kind::rule)) {
    const jit::OptionValues declared(rule);
    for (const auto& name : declared.names()) {
      const Option& option = declared.declaration(name);
      for (const double number : choose(option.constraint))
        for (const auto& [label, value] : values_with(name, option, number)) {
          SCOPED_TRACE(rule + "." + label + " = " + std::to_string(number));
          check(rule, name, label, value);
          ++count;
        }
    }
  }
  return count;
}

// Matrices, because some rules take only matrices.
Tensors make_matrices() { return make_parameters(torch::kFloat32, {{5, 3}, {3, 2}}); }

void expect_named(const std::string& message, const std::string& label) {
  EXPECT_HAS(message, label + " is ");
  EXPECT_HAS(message, "must be ");
}

TEST(OptionRanges, AreCheckedAtConstruction) {
  const Tensors parameters = make_matrices();
  const int count =
      for_numbers(invalid_numbers, [&](auto& rule, auto& name, auto& label, auto& value) {
        expect_named(
            argument_error([&] { Optimizer(rule, parameters, GenericOptions().set(name, value)); }),
            label);
      });
  EXPECT_GT(count, 1000);
}

TEST(OptionRanges, AreCheckedBeforeAGroupIsAdded) {
  const Tensors parameters = make_matrices();
  for_numbers(invalid_numbers, [&](auto& rule, auto& name, auto& label, auto& value) {
    Optimizer optimizer(rule, {parameters[0]});
    const std::string message = argument_error([&] {
      optimizer.add_param_group(
          {{parameters[1]}, std::make_unique<GenericOptions>(GenericOptions().set(name, value))});
    });
    expect_named(message, label);
    EXPECT_HAS(message, "parameter group 1");
    EXPECT_EQ(optimizer.param_groups().size(), 1u);
  });
}

TEST(OptionRanges, AreCheckedAtTheStepAfterASetterAndNothingChanges) {
  for_numbers(invalid_numbers, [&](auto& rule, auto& name, auto& label, auto& value) {
    // torch accepts a rate that a schedule makes 0 or negative: late_start_test.cpp, negative_rate_test.cpp.
    if (name == "lr" && value.number() <= 0 && std::isfinite(value.number())) return;
    const Tensors parameters = make_matrices();
    Optimizer optimizer(rule, parameters);
    train(optimizer, parameters, 1, 1);
    const Tensors before = clones(parameters);
    auto& options = static_cast<Options&>(optimizer.param_groups()[0].options());
    const Value good = options.get(name);
    options.put(name, value);
    set_gradients(parameters, 2);
    const std::string message = argument_error([&] { optimizer.step(); });
    expect_named(message, label);
    EXPECT_HAS(message, "parameter group 0");
    expect_equal(parameters, before);
    const auto& state = static_cast<ParamState&>(*optimizer.state().begin()->second);
    EXPECT_EQ(state.step(), 1);
    options.put(name, good);
    EXPECT_NO_THROW(optimizer.step());
  });
}

// Whether the rule rejects the combination of a value with the defaults of other options (`// refuse:`).
bool is_invalid_combination(const std::string& rule, const std::string& name, const Value& value) {
  jit::OptionValues options(rule);
  options.set(name, value);
  try {
    options.validate_dims(2);
    options.validate();
    return false;
  } catch (const jit::Error& error) {
    const auto& refusals = options.rule().refusals;
    return std::any_of(refusals.begin(), refusals.end(), [&](const jit::Refusal& refusal) {
      return std::string(error.what()).find(refusal.sentence) != std::string::npos;
    });
  }
}

TEST(OptionRanges, IncludeOrExcludeTheirBoundsAsDeclared) {
  const Tensors parameters = make_matrices();
  for_numbers(accepted_bounds, [&](auto& rule, auto& name, auto&, auto& value) {
    if (is_invalid_combination(rule, name, value)) return;
    EXPECT_NO_THROW(Optimizer(rule, parameters, GenericOptions().set(name, value)));
  });
}

TEST(OptionRanges, AnIntegerThatOverflowsIntIsReported) {
  const Tensors parameters = make_matrices();
  EXPECT_HAS(argument_error([&] { Prodigy(parameters, ProdigyOptions().slice_p(1e30)); }),
             "slice_p is 1e+30 and must be an integer >= 1, at most 2147483647");
}

// jitstep rejects what torch's C++ and Python constructors reject.
TEST(OptionRanges, IncludeTorchsChecks) {
  const Tensors parameters = make_parameters();
  const double nan = std::nan("");
  for (const double bad : {-1.0, -1e-300, nan}) {
    EXPECT_ANY_THROW(torch::optim::SGD(parameters, torch::optim::SGDOptions(bad)));
    EXPECT_THROW(SGD(parameters, SGDOptions(bad)), c10::Error);
    EXPECT_THROW(SGD(parameters, SGDOptions(0.1).momentum(bad)), c10::Error);
    EXPECT_THROW(SGD(parameters, SGDOptions(0.1).weight_decay(bad)), c10::Error);
    EXPECT_ANY_THROW(torch::optim::AdamW(parameters, torch::optim::AdamWOptions(bad)));
    EXPECT_THROW(AdamW(parameters, AdamWOptions(bad)), c10::Error);
    EXPECT_THROW(AdamW(parameters, AdamWOptions().eps(bad)), c10::Error);
    EXPECT_THROW(AdamW(parameters, AdamWOptions().weight_decay(bad)), c10::Error);
    EXPECT_THROW(Adam(parameters, AdamOptions(bad)), c10::Error);
    EXPECT_THROW(Adam(parameters, AdamOptions().eps(bad)), c10::Error);
    EXPECT_THROW(Adam(parameters, AdamOptions().weight_decay(bad)), c10::Error);
  }
  for (const double bad : {-1.0, 1.0, 2.0, nan}) {
    EXPECT_THROW(Adam(parameters, AdamOptions().betas({bad, 0.9})), c10::Error);
    EXPECT_THROW(Adam(parameters, AdamOptions().betas({0.9, bad})), c10::Error);
    EXPECT_THROW(AdamW(parameters, AdamWOptions().betas({bad, 0.9})), c10::Error);
    EXPECT_THROW(AdamW(parameters, AdamWOptions().betas({0.9, bad})), c10::Error);
  }
  for (const auto& options : {SGDOptions(0.1).nesterov(true),
                              SGDOptions(0.1).nesterov(true).momentum(0.9).dampening(0.1)})
    EXPECT_HAS(argument_error([&] { SGD(parameters, options); }),
               "Nesterov momentum requires a momentum and zero dampening");
  EXPECT_NO_THROW(SGD(parameters, SGDOptions(0)));
  EXPECT_NO_THROW(AdamW(parameters, AdamWOptions(0).eps(0).betas({0, 0}).weight_decay(0)));
}

}  // namespace
}  // namespace jitstep::tests
