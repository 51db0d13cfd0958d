// The combinations that the other tests try are as many as they say.
#include <gtest/gtest.h>

#include <set>

#include "support/bits.h"
#include "support/combinations.h"

namespace jitstep::support {
namespace {

using Kind = jit::Manifest::Kind;
using Words = std::set<std::string>;

// What all kernels of the cover and of the combinations before it have, as words.
template <class Say>
Words said_of_kernels(const Say& say) {
  Words words;
  for (const auto& spec : ci_combinations()) words.merge(say(spec));
  for (const StepCase& c : covering_cases()) words.merge(say(kernel_of(c).spec));
  return words;
}

Words flags_of(const jit::KernelSpec& spec) {
  Words words;
  for (const auto& flag : spec.flags)
    words.insert(spec.rule + " " + to_string(jit::NamedValues{flag}));
  return words;
}

TEST(Cover, HasEveryValueOfEveryFlagThatOptionsReach) {
  Words reached;
  for (const StepCase& c : all_cases()) reached.merge(flags_of(kernel_of(c).spec));
  EXPECT_GT(reached.size(), 100u);
  EXPECT_EQ(said_of_kernels(flags_of), reached);
}

TEST(Cover, HasEveryRuleInEachCodec) {
  const auto codecs = jit::default_catalog().names(Kind::codec);
  const Words words = said_of_kernels([](const jit::KernelSpec& spec) {
    Words all;
    for (const auto& codec : spec.state.slots)
      if (codec) all.insert(spec.rule + " " + codec->name);
    return all;
  });
  const auto rules = jit::default_catalog().names(Kind::rule);
  for (const auto& rule : rules) {
    const auto met = std::count_if(codecs.begin(), codecs.end(), [&](const std::string& codec) {
      return words.contains(rule + " " + codec);
    });
    EXPECT_GE(met, std::ssize(codecs_for(rule))) << rule;
  }
  for (const auto& codec : codecs) {
    const auto met = std::count_if(words.begin(), words.end(), [&](const std::string& word) {
      return word.ends_with(" " + codec);
    });
    EXPECT_GE(met, std::ssize(rules) * std::ssize(codecs_for("adamw")) / std::ssize(codecs))
        << codec;
  }
}

TEST(Cover, HasEveryCodecWithEveryWeightFormatAndDtype) {
  const Words words = said_of_kernels([](const jit::KernelSpec& spec) {
    Words all;
    for (const auto& codec : spec.state.slots)
      if (codec)
        all.insert(codec->name + " " + spec.state.weights + " " + to_string(spec.state.dtype));
    return all;
  });
  for (const auto& codec : jit::default_catalog().names(Kind::codec))
    for (const auto& weights : jit::default_catalog().names(Kind::weights))
      for (const jit::Dtype dtype : jit::default_catalog().weights(weights).dtypes) {
        if (dtype == jit::Dtype::float64 && codec != "fp32") continue;  // whose state is float64
        EXPECT_TRUE(words.contains(codec + " " + weights + " " + to_string(dtype)))
            << codec << " " << weights << " " << to_string(dtype);
      }
}

}  // namespace
}  // namespace jitstep::support
