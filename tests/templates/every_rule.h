// Properties of every rule in every state format of the folders. A program instantiates this suite for some of the
// codecs.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "support/combinations.h"
#include "support/plain_steps.h"

namespace jitstep::support {

using Floats = std::vector<float>;

// Leaves and blocks with incomplete ends. All are matrices, since some rules accept nothing else.
inline const std::vector<std::vector<std::int64_t>> kSizes = {{7, 131}, {129, 2}, {1, 1}};

// A rule with the most slots that it can have, all with one codec.
class Subject {
 public:
  explicit Subject(const std::string& rule) : options_(rule, own_.catalog) {
    const emulation::RuleOptions fullest = fullest_options(rule);
    for (const auto& [name, value] : fullest.values) options_.set(name, value);
    dims_ = fullest.dims;
  }

  // The same numbers for every codec: weights in [-1, 1], gradients of many magnitudes and some zeros.
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
  // Whether every slot starts at zero, which every codec stores exactly.
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

/// A rule and the codecs that it runs with.
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

// Whether a step computes with the stored new values, as codecs without codes do.
inline bool computes_with_stored_values(const jit::Plan& plan) {
  const auto has_no_codes = [](const jit::Manifest* codec) {
    return codec != nullptr && codec->code == "NoCode";
  };
  return std::any_of(plan.components.begin() + jit::kFirstCodecComponent, plan.components.end(),
                     has_no_codes);
}

// The first step uses moments that no codec has rounded yet. If a slot starts at a number that a codec rounds, the step
// may differ from the float one by that rounding. This is less than an eighth of the step.
TEST_P(EveryRuleInEveryCodec, TheFirstStepIsThatWithFloatState) {
  Subject subject(GetParam().rule);
  auto plain = subject.in("fp32");
  const std::vector<Floats> start = plain.p;
  plain.step(1);
  for (const std::string& codec : GetParam().codecs) {
    SCOPED_TRACE(codec);
    auto steps = subject.in(codec);
    if (computes_with_stored_values(steps.plan())) continue;
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

// ---- gradients that are not finite --------------------------------------------------------------

inline bool has_sums(const jit::Plan& plan, bool is_global) {
  return std::any_of(plan.reductions.begin(), plan.reductions.end(),
                     [&](const auto& r) { return r.active() && r.is_global == is_global; });
}

// Three steps. Element kBad of the first tensor has gradient `bad` in the second, when every rule moves. In the others
// it has 0, which does not affect any scale.
inline constexpr std::size_t kBad = 300;
inline PlainSteps<float> with_bad_gradient(Subject& subject, const std::string& codec, float bad) {
  auto steps = subject.in(codec);
  for (int t = 1; t <= 3; ++t) {
    steps.g[0][kBad] = t == 2 ? bad : 0;
    steps.step(t);
  }
  return steps;
}

// Everything that a bad gradient must not change: other tensors and, without sums, its neighbors.
inline std::vector<Floats> unaffected(const PlainSteps<float>& steps) {
  std::vector<Floats> p = steps.p;
  if (has_sums(steps.plan(), false) || !steps.plan().rule().transforms.empty())
    p[0].clear();
  else
    p[0][kBad] = 0;
  return p;
}

TEST_P(EveryRuleInEveryCodec, ANonFiniteGradientAffectsOnlyItsElement) {
  Subject subject(GetParam().rule);
  for (const std::string& codec : GetParam().codecs) {
    SCOPED_TRACE(codec);
    const auto good = with_bad_gradient(subject, codec, 0);
    if (has_sums(good.plan(), true)) continue;  // it affects all tensors, as in torch
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
      const auto steps = with_bad_gradient(subject, codec, bad);
      EXPECT_EQ(unaffected(steps), unaffected(good)) << bad;
      EXPECT_TRUE(!std::isnan(bad) || !std::isfinite(steps.p[0][kBad]));
    }
  }
}

/// Each shipped rule, with the codecs that `codecs_of` returns for it.
template <class CodecsOf>
auto every_rule_in(const CodecsOf& codecs_of) {
  std::vector<RuleInCodecs> all;
  for (const auto& rule : jit::default_catalog().names(jit::Manifest::Kind::rule))
    all.push_back({rule, codecs_of(rule)});
  return testing::ValuesIn(all);
}
inline constexpr auto kRuleName = [](const auto& one) { return one.param.rule; };

}  // namespace jitstep::support
