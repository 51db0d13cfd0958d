// What holds of every rule in every state format, whichever the folders have: the suite, which a program
// instantiates for some of the codecs.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "support/combinations.h"
#include "support/plain_steps.h"

namespace jitstep::support {

using Floats = std::vector<float>;

// Elements of a leaf and of blocks, ragged; matrices, which rules of matrices take alone.
inline const std::vector<std::vector<std::int64_t>> kSizes = {{7, 131}, {129, 2}, {1, 1}};

// A rule with the most slots it can have, which all are kept in one codec.
class Subject {
 public:
  explicit Subject(const std::string& rule) : options_(rule, own_.catalog) {
    const emulation::RuleOptions fullest = fullest_options(rule);
    for (const auto& [name, value] : fullest.values) options_.set(name, value);
    dims_ = fullest.dims;
  }

  // Of the same numbers in every codec: weights about 1, gradients of many magnitudes and some zeros.
  PlainSteps<float> in(const std::string& codec) {
    const std::vector<std::string> codecs(options_.rule().slots.size(), codec);
    PlainSteps<float> steps(own_, cpu_, plain_spec(options_, codecs, dims_), options_, kSizes);
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1, 1), decade(-6, 0);
    for (auto& p : steps.p)
      for (float& x : p) x = uniform(random);
    for (auto& g : steps.g)
      for (float& x : g)
        x = uniform(random) > 0.9f ? 0 : uniform(random) * std::pow(10.0f, decade(random));
    return steps;
  }

  const jit::Manifest& rule() const { return options_.rule(); }
  // Whether every slot starts as zeros, which every codec keeps.
  bool starts_from_zeros() const {
    return std::all_of(rule().slots.begin(), rule().slots.end(),
                       [&](const jit::Slot& slot) { return options_.initial(slot.initial) == 0; });
  }

 private:
  OwnTemplates own_;
  jit::CpuBackend cpu_{own_.engine};
  jit::OptionValues options_;
  int dims_ = 2;
};

/// A rule and the codecs that it is tried in.
struct RuleInCodecs {
  std::string rule;
  std::vector<std::string> codecs;
};
inline void PrintTo(const RuleInCodecs& one, std::ostream* out) { *out << one.rule; }

class EveryRuleInEveryCodec : public testing::TestWithParam<RuleInCodecs> {};

inline double norm_of_difference(const std::vector<Floats>& a, const std::vector<Floats>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t k = 0; k < a[i].size(); ++k)
      sum += std::pow(double{a[i][k]} - double{b[i][k]}, 2);
  return std::sqrt(sum);
}

// Whether a step is made of new values as they are kept, as of those without codes.
inline bool computes_with_what_is_kept(const jit::Plan& plan) {
  const auto has_no_codes = [](const jit::Manifest* codec) {
    return codec != nullptr && codec->code == "NoCode";
  };
  return std::any_of(plan.components.begin() + jit::kFirstCodecComponent, plan.components.end(),
                     has_no_codes);
}

// The first step is made of moments that no codec has touched yet. Where a slot starts with a number that a
// codec may round, the step is as far from the float one as that, which is less than an eighth.
TEST_P(EveryRuleInEveryCodec, TakesItsFirstStepAsWithFloatState) {
  Subject subject(GetParam().rule);
  auto plain = subject.in("fp32");
  const std::vector<Floats> start = plain.p;
  plain.step(1);
  for (const std::string& codec : GetParam().codecs) {
    SCOPED_TRACE(codec);
    auto steps = subject.in(codec);
    if (computes_with_what_is_kept(steps.plan())) continue;
    steps.step(1);
    if (subject.starts_from_zeros())
      EXPECT_EQ(steps.p, plain.p);
    else
      EXPECT_LE(norm_of_difference(steps.p, plain.p), norm_of_difference(plain.p, start) / 8);
  }
}

TEST_P(EveryRuleInEveryCodec, StaysFiniteAndMoves) {
  Subject subject(GetParam().rule);
  for (const std::string& codec : GetParam().codecs) {
    SCOPED_TRACE(codec);
    auto steps = subject.in(codec);
    const std::vector<Floats> start = steps.p;
    for (int t = 1; t <= 5; ++t) steps.step(t);
    const double moved = norm_of_difference(steps.p, start);
    EXPECT_TRUE(std::isfinite(moved));
    EXPECT_GT(moved, 0);
  }
}

// ---- gradients that are not finite ----------------------------------------------------------------

inline bool takes_sums(const jit::Plan& plan, bool everywhere) {
  return std::any_of(plan.reductions.begin(), plan.reductions.end(),
                     [&](const auto& r) { return r.active() && r.is_global == everywhere; });
}

// Three steps; element kHurt of the first tensor gets `bad` in the second one, when every rule moves, and 0 in
// the others, which no scale notices.
inline constexpr std::size_t kHurt = 300;
inline PlainSteps<float> hurt(Subject& subject, const std::string& codec, float bad) {
  auto steps = subject.in(codec);
  for (int t = 1; t <= 3; ++t) {
    steps.g[0][kHurt] = t == 2 ? bad : 0;
    steps.step(t);
  }
  return steps;
}

// All that a gradient may not harm: other tensors and, where no sum is taken, its neighbours.
inline std::vector<Floats> unharmed(const PlainSteps<float>& steps) {
  std::vector<Floats> p = steps.p;
  if (takes_sums(steps.plan(), false) || !steps.plan().rule().host_transform.empty())
    p[0].clear();
  else
    p[0][kHurt] = 0;
  return p;
}

TEST_P(EveryRuleInEveryCodec, KeepsAGradientThatIsNotFiniteWhereItIs) {
  Subject subject(GetParam().rule);
  for (const std::string& codec : GetParam().codecs) {
    SCOPED_TRACE(codec);
    const auto well = hurt(subject, codec, 0);
    if (takes_sums(well.plan(), true)) continue;  // which it harms all of, as in torch
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
      const auto steps = hurt(subject, codec, bad);
      EXPECT_EQ(unharmed(steps), unharmed(well)) << bad;
      EXPECT_TRUE(!std::isnan(bad) || !std::isfinite(steps.p[0][kHurt]));
    }
  }
}

/// Each shipped rule, in the codecs that a function gives for it.
template <class CodecsOf>
auto every_rule_in(const CodecsOf& codecs_of) {
  std::vector<RuleInCodecs> all;
  for (const auto& rule : jit::default_catalog().names(jit::Manifest::Kind::rule))
    all.push_back({rule, codecs_of(rule)});
  return testing::ValuesIn(all);
}
inline constexpr auto kRuleName = [](const auto& one) { return one.param.rule; };

}  // namespace jitstep::support
