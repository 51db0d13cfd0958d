// The combinations that other tests use reach everything that they claim to reach.
#include <gtest/gtest.h>

#include <set>

#include "support/bits.h"
#include "support/combinations.h"

namespace jitstep::support {
namespace {

using Kind = jit::Manifest::Kind;
using Properties = std::set<std::string>;

// Collects properties of all kernels of the covering set and of the fixed combinations.
template <class Property>
Properties properties_of_kernels(const Property& property) {
  Properties found;
  for (const auto& spec : ci_combinations()) found.merge(property(spec));
  for (const StepCase& c : covering_cases()) found.merge(property(kernel_of(c).spec));
  return found;
}

Properties flags_of(const jit::KernelSpec& spec) {
  Properties found;
  for (const auto& flag : spec.flags)
    found.insert(spec.rule + " " + to_string(jit::NamedValues{flag}));
  return found;
}

TEST(CoveringSet, HasEveryReachableValueOfEveryFlag) {
  Properties reached;
  for (const StepCase& c : all_cases()) reached.merge(flags_of(kernel_of(c).spec));
  EXPECT_GT(reached.size(), 100u);
  EXPECT_EQ(properties_of_kernels(flags_of), reached);
}

TEST(CoveringSet, HasEveryRuleInEachCodec) {
  const auto codecs = jit::default_catalog().names(Kind::codec);
  const Properties found = properties_of_kernels([](const jit::KernelSpec& spec) {
    Properties all;
    for (const auto& codec : spec.state.slots)
      if (codec) all.insert(spec.rule + " " + codec->name);
    return all;
  });
  const auto rules = jit::default_catalog().names(Kind::rule);
  for (const auto& rule : rules) {
    if (jit::default_catalog().rule(rule).slots.empty()) continue;
    const auto met = std::count_if(codecs.begin(), codecs.end(), [&](const std::string& codec) {
      return found.contains(rule + " " + codec);
    });
    EXPECT_GE(met, std::ssize(codecs_for(rule))) << rule;
  }
  for (const auto& codec : codecs) {
    const auto met = std::count_if(found.begin(), found.end(), [&](const std::string& one) {
      return one.ends_with(" " + codec);
    });
    EXPECT_GE(met, std::ssize(rules) * std::ssize(codecs_for("adamw")) / std::ssize(codecs))
        << codec;
  }
}

TEST(CoveringSet, HasEveryCodecWithEveryWeightFormatAndDtype) {
  const Properties found = properties_of_kernels([](const jit::KernelSpec& spec) {
    Properties all;
    for (const auto& codec : spec.state.slots)
      if (codec)
        all.insert(codec->name + " " + spec.state.weights + " " + to_string(spec.state.dtype));
    return all;
  });
  for (const auto& codec : jit::default_catalog().names(Kind::codec))
    for (const auto& weights : jit::default_catalog().names(Kind::weights))
      for (const jit::Dtype dtype : jit::default_catalog().weights(weights).dtypes) {
        if (dtype == jit::Dtype::float64 && codec != "fp32") continue;  // whose state is float64
        EXPECT_TRUE(found.contains(codec + " " + weights + " " + to_string(dtype)))
            << codec << " " << weights << " " << to_string(dtype);
      }
}

}  // namespace
}  // namespace jitstep::support
