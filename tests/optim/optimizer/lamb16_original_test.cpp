// An independent implementation of the original LAMB16, in double precision with its two 8-bit formats. jitstep's
// `original` form must follow it with every option away from its default.
#include <array>
#include <cmath>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

using Form = LAMB16Options::Form;

// The number nearest to x in an 8-bit float format with `fraction` mantissa bits. Ties go to the even code.
double nearest_float8(double x, int fraction, int bias) {
  if (x == 0) return 0;
  const int exponent = std::max(std::ilogb(x), 1 - bias);
  const double unit = std::ldexp(1.0, exponent - fraction);
  return std::nearbyint(x / unit) * unit;
}
double e4m3(double x) { return nearest_float8(x, 3, 7); }
double e5m2(double x) { return nearest_float8(x, 2, 15); }

double clip(double x, double low, double high) { return std::min(std::max(x, low), high); }

struct Settings {
  double lr, beta1, beta2, eps, weight_decay, trust_scale;
};

// One tensor and its state through the steps of the original.
struct Original {
  std::vector<double> p, m = std::vector<double>(p.size()),
                         v = m;  // m and v divided by their norms
  double m_norm = 1, v_norm = 1;

  double norm(const std::vector<double>& x, double low, double high) const {
    double sum = 0;
    for (const double one : x) sum += clip(one * one, low, high);
    return std::sqrt(sum) / static_cast<double>(x.size());
  }

  void step(const torch::Tensor& gradient, const Settings& s) {
    const auto g = gradient.flatten().to(torch::kFloat64);
    std::vector<double> update(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double x = g[static_cast<std::int64_t>(i)].item<double>();
      m[i] = s.beta1 * (m[i] * m_norm) + (1 - s.beta1) * x;
      v[i] = s.beta2 * (v[i] * v_norm) + (1 - s.beta2) * x * x;
      update[i] = m[i] / (std::sqrt(v[i]) + s.eps) + s.weight_decay * p[i];
    }
    const double ratio = norm(p, s.eps, 1) / norm(update, s.eps, 1) / s.lr * 1e-3;
    const double trust = clip(std::pow(ratio, s.trust_scale), 0, 2);
    m_norm = norm(m, 0, 10) + s.eps;
    v_norm = norm(v, 0, 10) + s.eps;
    for (std::size_t i = 0; i < p.size(); ++i) {
      m[i] = e4m3(clip(m[i] / m_norm, -15, 15));
      v[i] = e5m2(clip(v[i], 0, 10) / v_norm);
      p[i] -= s.lr * trust * update[i];
    }
  }
};

Original original_of(const torch::Tensor& p) {
  const auto values = p.detach().flatten().to(torch::kFloat64);
  return {.p = {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()}};
}

LAMB16Options options_of(const Settings& s) {
  return LAMB16Options(s.lr)
      .betas({s.beta1, s.beta2})
      .eps(s.eps)
      .weight_decay(s.weight_decay)
      .trust_scale(s.trust_scale)
      .form(Form::original);
}

void expect_follows(const torch::Tensor& p, LAMB16& optimizer, const Original& original, int step) {
  SCOPED_TRACE(::testing::Message() << "step " << step << ", " << p.sizes());
  auto& state = static_cast<LAMB16ParamState&>(*optimizer.state().at(p.unsafeGetTensorImpl()));
  const auto ours = p.detach().flatten(), m = state.exp_avg().flatten(),
             v = state.exp_avg_sq().flatten();
  // A weight near zero is a difference of larger numbers, so its relative error may be large.
  const auto weights_near = [](double mine, double theirs) {
    return std::abs(mine - theirs) <= 2e-6 * std::abs(theirs) + 1e-8;
  };
  const auto near = [](double mine, double theirs) {
    return std::abs(mine - theirs) <= 2e-6 * std::abs(theirs) + 1e-12;
  };
  for (std::size_t i = 0; i < original.p.size(); ++i) {
    const auto k = static_cast<std::int64_t>(i);
    ASSERT_PRED2(weights_near, ours[k].item<double>(), original.p[i]) << i;
    ASSERT_PRED2(near, m[k].item<double>(), original.m[i] * original.m_norm) << i;
    ASSERT_PRED2(near, v[k].item<double>(), original.v[i] * original.v_norm) << i;
  }
}

// `changed` applies from the fourth step on.
void expect_same_trajectory(const Settings& settings, const Settings& changed) {
  const Tensors parameters =
      make_parameters(torch::kFloat32, {{1}, {37}, {5, 7}, {300}, {2, 3, 43}});
  std::vector<Original> originals;
  for (const auto& p : parameters) originals.push_back(original_of(p));
  LAMB16 optimizer(parameters, options_of(settings));
  for (int step = 1; step <= 7; ++step) {
    if (step == 4) optimizer.param_groups()[0].set_options(options_of(changed).clone());
    set_gradients(parameters, step);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].mutable_grad().mul_(1e-3);
      originals[i].step(parameters[i].grad(), step < 4 ? settings : changed);
    }
    optimizer.step();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      expect_follows(parameters[i], optimizer, originals[i], step);
  }
}

constexpr Settings kAway = {.lr = 0.003,
                            .beta1 = 0.85,
                            .beta2 = 0.98,
                            .eps = 1e-5,
                            .weight_decay = 0.02,
                            .trust_scale = 0.6};

TEST(Lamb16Original, FollowsTheFormulasWithEveryOptionAwayFromItsDefault) {
  expect_same_trajectory(kAway, kAway);
}

// The norms of the state also contain eps, as of the step that computed them.
TEST(Lamb16Original, FollowsOptionsThatAreChangedBetweenSteps) {
  Settings changed = kAway;
  changed.eps = 4e-5;
  changed.lr = 0.001;
  expect_same_trajectory(kAway, changed);
}

float norm_of(Optimizer& optimizer, const torch::Tensor& p, const char* name = "m.norm") {
  auto& state = static_cast<ParamState&>(*optimizer.state().at(p.unsafeGetTensorImpl()));
  return state.aux_state(name).item<float>();
}

std::unique_ptr<Optimizer> stepped(const torch::Tensor& p, const std::string& spec) {
  auto optimizer = Optimizer::from_spec({p}, spec);
  p.mutable_grad() = torch::zeros_like(p.detach());
  optimizer->step();
  return optimizer;
}

// The norm of zeros is the number that is added to it.
TEST(NormsOfLamb16sFormat, HaveTheRulesEpsWhicheverFormNamesTheFormat) {
  const auto p = torch::ones({5}).requires_grad_();
  const auto norm = [&](const std::string& spec) { return norm_of(*stepped(p, spec), p); };
  EXPECT_FLOAT_EQ(norm(R"({"rule": "lamb16", "options": {"eps": 3e-4}, "state": "fp8_norm"})"),
                  3e-4f);
  EXPECT_FLOAT_EQ(norm(R"({"rule": "lamb16", "options": {"eps": 3e-4}, "state":
                           {"m": {"codec": "fp8_norm", "least_norm": 0.5}}})"),
                  0.5f);
  EXPECT_FLOAT_EQ(norm(R"({"rule": "adamw", "options": {"eps": 3e-4}, "state": "fp8_norm"})"),
                  1e-6f);
  EXPECT_FLOAT_EQ(norm(R"({"rule": "adamw", "options": {"eps": 3e-4}, "state":
                           {"codec": "fp8_norm", "least_norm": "eps"}})"),
                  3e-4f);
  EXPECT_FLOAT_EQ(norm(R"({"rule": "adamw", "state": {"codec": "fp8_norm", "least_norm": 2}})"),
                  2.f);
}

TEST(NormsOfLamb16sFormat, HaveTheRulesEpsInSetAndConvertedValues) {
  const auto p = torch::ones({5}).requires_grad_();
  const auto optimizer = stepped(
      p,
      R"({"rule": "lamb16", "options": {"eps": 3e-4, "form": "original"}, "state": {"m": "fp32"}})");
  auto& state = static_cast<LAMB16ParamState&>(*optimizer->state().at(p.unsafeGetTensorImpl()));
  state.exp_avg_sq(torch::full({5}, 0.1));
  EXPECT_FLOAT_EQ(norm_of(*optimizer, p, "v.norm"), 0.1f / std::sqrt(5.f) + 3e-4f);
  state.exp_avg(torch::full({5}, 0.2));
  const auto other =
      Optimizer::from_spec({p}, R"({"rule": "lamb16", "options": {"form": "original"}})");
  copy_through_archive(*optimizer, *other);
  auto& loaded = static_cast<LAMB16ParamState&>(*other->state().at(p.unsafeGetTensorImpl()));
  EXPECT_LT((loaded.exp_avg() - 0.2).abs().max().item<float>(), 0.2 / 16);
  EXPECT_FLOAT_EQ(norm_of(*other, p), 0.2f / std::sqrt(5.f) + 3e-4f);
}

// Options that affect only later encodings do not change the stored state.
TEST(NormsOfLamb16sFormat, DoNotChangeWhenTheAddedNumberChanges) {
  const auto p = torch::ones({5}).requires_grad_();
  const auto optimizer =
      stepped(p, R"({"rule": "adamw", "state": {"codec": "fp8_norm", "least_norm": 2}})");
  const auto other = Optimizer::from_spec({p}, R"({"rule": "adamw", "state": "fp8_norm"})");
  copy_through_archive(*optimizer, *other);
  EXPECT_EQ(norm_of(*other, p), 2.f) << "not converted";
  p.mutable_grad() = torch::zeros({5});
  other->step();
  EXPECT_FLOAT_EQ(norm_of(*other, p), 1e-6f);
}

TEST(NormsOfLamb16sFormat, RejectANameThatIsNoNumberOfTheRule) {
  const auto p = torch::ones({5}).requires_grad_();
  const auto problem = [&](const std::string& state) {
    return argument_error(
        [&] { Optimizer::from_spec({p}, R"({"rule": "adamw", "state": )" + state + "}"); });
  };
  EXPECT_HAS(problem(R"({"codec": "fp8_norm", "least_norm": "epsilon"})"), "adamw");
  EXPECT_HAS(problem(R"({"codec": "fp8_norm", "least_norm": "epsilon"})"), "\"epsilon\"");
  EXPECT_HAS(problem(R"({"codec": "fp8_norm", "least_norm": "betas"})"), "\"betas\"");
  EXPECT_HAS(problem(R"({"codec": "fp8_norm", "least_norm": -1})"), "least_norm is -1");
  EXPECT_HAS(problem(R"({"codec": "fp8_norm", "least_norm": null})"), "least_norm");
  EXPECT_HAS(problem(R"({"codec": "fp8_norm", "least": 1})"), "least_norm");
}

}  // namespace
}  // namespace jitstep::tests
