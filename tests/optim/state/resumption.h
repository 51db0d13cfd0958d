// Whether training continues bit for bit after a save and a load into a new optimizer: for any rule, in any storage
// format of state and weights.
#pragma once

#include <map>
#include <memory>

#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"
#include "optim/rule_inputs.h"
#include "optim/training.h"

namespace jitstep::tests {

/// The storage format of an optimizer's state and parameters.
struct StorageFormat {
  std::string codec, weights;
  torch::Dtype dtype;
};

/// Every codec with every weight format in every dtype. float64 appears once, because its state is never quantized.
inline std::vector<StorageFormat> all_storage_formats() {
  using Kind = jit::Manifest::Kind;
  static const std::map<jit::Dtype, torch::Dtype> dtypes = {
      {jit::Dtype::float32, torch::kFloat32},
      {jit::Dtype::bfloat16, torch::kBFloat16},
      {jit::Dtype::float16, torch::kFloat16}};
  std::vector<StorageFormat> formats = {{"fp32", "native", torch::kFloat64}};
  for (const auto& codec : shipped(Kind::codec))
    for (const auto& weights : shipped(Kind::weights))
      for (const jit::Dtype dtype : jit::default_catalog().weights(weights).dtypes)
        if (dtype != jit::Dtype::float64) formats.push_back({codec, weights, dtypes.at(dtype)});
  return formats;
}

/// A covering set: every codec, and every weight format in every dtype.
inline std::vector<StorageFormat> covering_storage_formats() {
  const std::vector<StorageFormat> all = all_storage_formats();
  const std::size_t codecs = shipped(jit::Manifest::Kind::codec).size();
  const std::size_t kinds = (all.size() - 1) / codecs;  // combinations of weight format and dtype
  std::vector<StorageFormat> cover = {all.front()};
  for (std::size_t i = 0; i < std::max(codecs, kinds); ++i)
    cover.push_back(all[1 + i % codecs * kinds + i % kinds]);
  return cover;
}

// A value other than the default, for options that other things may depend on.
inline jit::Value other_value(const jit::Option& option) {
  using Type = jit::Option::Type;
  const jit::Value& initial = option.initial;
  if (option.type == Type::boolean) return !initial.boolean();
  if (option.type == Type::choice)
    return initial == option.choices.back() ? option.choices.front() : option.choices.back();
  const bool off = initial.is_null() || (option.type == Type::number && initial.number() == 0);
  constexpr double kLittle = 0.015625;  // large enough to have an effect, small enough to be valid
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

/// Options of a rule with as many as possible at a value other than their default. State that exists only under some
/// options is then saved too.
inline GenericOptions all_switched(const std::string& rule) {
  jit::OptionValues values(rule);
  GenericOptions options;
  for (const std::string& name : values.names()) {
    const jit::Option& option = values.declaration(name);
    if (option.type == jit::Option::Type::list) continue;  // one number per parameter
    jit::OptionValues changed = values;
    changed.set(name, other_value(option));
    if (changed == values || !is_accepted(changed)) continue;
    values = changed;
    options.set(name, values.get(name));
  }
  return options;
}

// Small tensors have quantized state too. Removes parameters that the rule rejects.
inline std::unique_ptr<Optimizer> make_in(const StorageFormat& format, const std::string& rule,
                                          Tensors& parameters, GenericOptions options) {
  options.state(format.codec).weights(format.weights).min_quantized_size(1);
  try {
    return std::make_unique<Optimizer>(rule, parameters, options);
  } catch (const c10::Error&) {
    parameters.resize(1);  // only the matrix
    return std::make_unique<Optimizer>(rule, parameters, options);
  }
}

/// Steps with the gradients of train(), and with an estimate of the Hessian's diagonal for rules that read one.
inline void train_with_inputs(Optimizer& optimizer, const Tensors& parameters, int first,
                              int last) {
  for (int step = first; step <= last; ++step) {
    set_inputs(optimizer, parameters, 0.5 * step);
    train(optimizer, parameters, step, step);
  }
}

/// Trains, saves, loads into a new optimizer with new tensors and default options, and continues. Expects the result of
/// the same training without the break. The matrix ends in a partial block.
inline void expect_resumes(const std::string& rule, const StorageFormat& format,
                           GenericOptions options) {
  SCOPED_TRACE(rule + ", " + format.codec + ", " + format.weights + ", " +
               torch::toString(format.dtype));
  Tensors straight = make_parameters(format.dtype, {{9, 40}, {130}, {}}), saved = clones(straight);
  options.seed(11);
  const auto whole = make_in(format, rule, straight, options);
  train_with_inputs(*whole, straight, 1, 4);
  const auto first = make_in(format, rule, saved, options);
  train_with_inputs(*first, saved, 1, 2);
  Tensors loaded = clones(saved);
  const auto second = make_in(format, rule, loaded, GenericOptions());
  copy_through_archive(*first, *second);
  train_with_inputs(*second, loaded, 3, 4);
  expect_equal(loaded, straight);
  for (std::size_t i = 0; i < straight.size(); ++i)
    EXPECT_TRUE(state_of(*second, loaded[i]) == state_of(*whole, straight[i])) << "state of " << i;
  EXPECT_TRUE(straight[0].isfinite().all().item<bool>()) << "non-finite values cannot be compared";
}

}  // namespace jitstep::tests
