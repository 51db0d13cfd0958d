// Whether training goes on bit for bit after a save and a load into a new optimizer: of any rule, in any
// form that its state and weights can have.
#pragma once

#include <map>
#include <memory>

#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"
#include "optim/training.h"

namespace jitstep::tests {

/// How one optimizer keeps its parameters.
struct Form {
  std::string codec, weights;
  torch::Dtype dtype;
};

/// Every codec with every weight format in every dtype; float64, whose state is never coded, once.
inline std::vector<Form> all_forms() {
  using Kind = jit::Manifest::Kind;
  static const std::map<jit::Dtype, torch::Dtype> dtypes = {
      {jit::Dtype::float32, torch::kFloat32},
      {jit::Dtype::bfloat16, torch::kBFloat16},
      {jit::Dtype::float16, torch::kFloat16}};
  std::vector<Form> forms = {{"fp32", "native", torch::kFloat64}};
  for (const auto& codec : shipped(Kind::codec))
    for (const auto& weights : shipped(Kind::weights))
      for (const jit::Dtype dtype : jit::default_catalog().weights(weights).dtypes)
        if (dtype != jit::Dtype::float64) forms.push_back({codec, weights, dtypes.at(dtype)});
  return forms;
}

/// Some of them, in which every codec comes up, and every weight format in every dtype.
inline std::vector<Form> cover_of_forms() {
  const std::vector<Form> all = all_forms();
  const std::size_t codecs = shipped(jit::Manifest::Kind::codec).size();
  const std::size_t kinds = (all.size() - 1) / codecs;  // of weights
  std::vector<Form> cover = {all.front()};
  for (std::size_t i = 0; i < std::max(codecs, kinds); ++i)
    cover.push_back(all[1 + i % codecs * kinds + i % kinds]);
  return cover;
}

// Another value than the default, for options that something may depend on.
inline jit::Value other_value(const jit::Option& option) {
  using Type = jit::Option::Type;
  const jit::Value& initial = option.initial;
  if (option.type == Type::boolean) return !initial.boolean();
  if (option.type == Type::choice)
    return initial == option.choices.back() ? option.choices.front() : option.choices.back();
  const bool off = initial.is_null() || (option.type == Type::number && initial.number() == 0);
  constexpr double kLittle = 0.015625;  // does something and breaks nothing
  return off ? jit::Value(kLittle) : initial;
}

inline bool is_accepted(const jit::OptionValues& values) {
  try {
    values.validate();
    for (const int dims : {1, 2}) values.validate_dims(dims);
  } catch (const jit::Error&) {
    return false;
  }
  return true;
}

/// Options of a rule with as many as it accepts together at another value than their default, so that what
/// exists under options alone is there to be saved.
inline GenericOptions all_switched(const std::string& rule) {
  jit::OptionValues values(rule);
  GenericOptions options;
  for (const std::string& name : values.names()) {
    const jit::Option& option = values.declaration(name);
    if (option.type == jit::Option::Type::list) continue;  // one number for each parameter
    jit::OptionValues changed = values;
    changed.set(name, other_value(option));
    if (changed == values || !is_accepted(changed)) continue;
    values = changed;
    options.set(name, values.get(name));
  }
  return options;
}

// With small tensors in coded state, too; those that the rule refuses are taken out.
inline std::unique_ptr<Optimizer> make_in(const Form& form, const std::string& rule,
                                          Tensors& parameters, GenericOptions options) {
  options.state(form.codec).weights(form.weights).min_quantized_size(1);
  try {
    return std::make_unique<Optimizer>(rule, parameters, options);
  } catch (const c10::Error&) {
    parameters.resize(1);  // the matrix
    return std::make_unique<Optimizer>(rule, parameters, options);
  }
}

inline const ParamState& state_of(Optimizer& optimizer, const torch::Tensor& parameter) {
  return static_cast<ParamState&>(*optimizer.state().at(parameter.unsafeGetTensorImpl()));
}

/// Trains, saves, loads into a new optimizer of new tensors and with default options, goes on, and expects
/// what the same training without the break gives. The matrix ends in a part of a block.
inline void expect_resumes(const std::string& rule, const Form& form, GenericOptions options) {
  SCOPED_TRACE(rule + ", " + form.codec + ", " + form.weights + ", " + torch::toString(form.dtype));
  Tensors straight = make_parameters(form.dtype, {{9, 40}, {130}, {}}), saved = clones(straight);
  options.seed(11);
  const auto whole = make_in(form, rule, straight, options);
  train(*whole, straight, 1, 4);
  const auto first = make_in(form, rule, saved, options);
  train(*first, saved, 1, 2);
  Tensors loaded = clones(saved);
  const auto second = make_in(form, rule, loaded, GenericOptions());
  copy_through_archive(*first, *second);
  train(*second, loaded, 3, 4);
  expect_equal(loaded, straight);
  for (std::size_t i = 0; i < straight.size(); ++i)
    EXPECT_TRUE(state_of(*second, loaded[i]) == state_of(*whole, straight[i])) << "state of " << i;
  EXPECT_TRUE(straight[0].isfinite().all().item<bool>()) << "nothing can be compared";
}

}  // namespace jitstep::tests
