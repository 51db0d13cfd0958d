// Auxiliary state as users see it: of a parameter, of its rows, and of the whole optimizer.
#include "optim/training.h"

namespace jitstep::tests {
namespace {

constexpr const char* kRule = R"(// Descent whose rate depends on all of its auxiliary state.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::keeping {
struct Hyper {
  double lr = 1e-3;  // >= 0
  double start = 3;  // finite
};
struct Flags {
  bool doubling = true;
};
struct Slots {
  Signed m;
};
struct AuxState {
  Entry<all, double> steps;  // torch: k
  Entry<all, double> total;  // initial: start
  Entry<tensor, double> own; // torch: own_steps; initial: 1; if doubling
  Entry<rows> row;
};
struct Scalars { real rate; };
struct Total { real now; };
struct Row { real size; };
struct Reductions {
  Sum<all, 1, Total> total;
  Sum<rows, 1, Row> row;
};
template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64, AuxState& m) {
    m.steps.next = m.steps.prev + 1;
    if (F.doubling) m.own.next = 2 * m.own.prev;
    return {static_cast<real>(h.lr / (F.doubling ? m.own.next : 1.0))};
  }
  KHD static Reals<1> terms(Of<Total>, const auto& e, const auto&) { return {abs(e.g)}; }
  KHD static Total finalize(Of<Total>, const Totals<1>& sum, int64, const auto&, AuxState& m) {
    m.total.next = m.total.prev + m.steps.next * sum[0];
    return {static_cast<real>(m.total.next)};
  }
  KHD static Reals<1> terms(Of<Row>, const auto& e, const auto&) { return {e.g * e.g}; }
  KHD static Row finalize(Of<Row>, const Totals<1>& sum, int64, const auto&, AuxState& m) {
    m.row.next = m.row.prev + static_cast<real>(sum[0]);
    return {m.row.next};
  }
  KHD static void update_state(auto& e, const auto&) { e.m.next = (e.m.prev + e.g) / 2; }
  KHD static void update_param(auto& e, const auto& c) {
    e.p -= c.rate * e.m.next / (c.total.now + c.row.size);
  }
};
}  // namespace jitstep::rules::keeping
)";

using Groups = std::vector<Optimizer::ParamGroup>;

class AuxState : public ::testing::Test {
 protected:
  AuxState() { load_rule(own_file("keeping.cuh", kRule)); }

  static Tensors parameters() { return make_parameters(torch::kFloat32, {{5, 3}, {4}, {}}); }

  static Optimizer optimizer(const Tensors& p, const std::string& codec = "fp32") {
    return Optimizer("keeping", p, GenericOptions(0.1).state(codec));
  }

  // Each parameter misses some steps, including the first one.
  static void train_with_gaps(Optimizer& opt, const Tensors& p, int first, int last) {
    for (int step = first; step <= last; ++step) {
      set_gradients(p, step);
      for (std::size_t i = 0; i < p.size(); ++i)
        if ((static_cast<std::size_t>(step) + i) % 3 == 0) p[i].mutable_grad() = torch::Tensor();
      opt.step();
    }
  }
};

TEST(ListOption, HasANumberForEachParameterOfTheGroupOrNone) {
  const Tensors p = make_parameters(torch::kBFloat16, {{3}, {4}});
  const auto options = [](std::vector<double> decays) {
    return AdamWBF16Options(0.01).initial_accumulated_decay(std::move(decays));
  };
  EXPECT_HAS(argument_error([&] { AdamWBF16(p, options({1e-3})); }), "initial_accumulated_decay");
  EXPECT_NO_THROW(AdamWBF16(p, options({})));
  AdamWBF16 optimizer(p, options({1e-3, 2e-3}));
  const Tensors more = make_parameters(torch::kBFloat16, {{5}, {6}, {7}});
  EXPECT_HAS(argument_error([&] { optimizer.add_param_group(OptimizerParamGroup(more)); }),
             "group 1");
  EXPECT_EQ(optimizer.param_groups().size(), 1);
}

// In the group no parameter counts twice, whatever groups precede it.
TEST(ListOption, IsIndexedWithinTheGroup) {
  const Tensors p = make_parameters(torch::kBFloat16, {{3}, {4}, {5}, {6}, {7}});
  const auto with = [](std::vector<double> decays) {
    return std::make_unique<AdamWBF16Options>(
        AdamWBF16Options(0.01).initial_accumulated_decay(std::move(decays)));
  };
  const auto groups = [&](const Tensors& q) {
    std::vector<OptimizerParamGroup> both;
    both.emplace_back(Tensors{q[0], q[1], q[0], q[2]}, with({1e-3, 2e-3, 3e-3}));
    both.emplace_back(Tensors{q[3], q[4]}, with({4e-3, 4.5e-3}));
    return both;
  };
  const Warnings of_the_repeated;
  const std::vector<double> expected = {1e-3, 2e-3, 3e-3, 4e-3, 4.5e-3};
  const auto decay_of = [](Optimizer& optimizer, const torch::Tensor& q) {
    auto& state = static_cast<ParamState&>(*optimizer.state().at(q.unsafeGetTensorImpl()));
    return state.aux_state("accumulated_decay").item<double>();
  };
  AdamWBF16 optimizer(groups(p));
  train(optimizer, p, 1, 1);
  for (std::size_t i = 0; i < p.size(); ++i) EXPECT_EQ(decay_of(optimizer, p[i]), expected[i]) << i;
  const Tensors q = clones(p);
  AdamWBF16 loaded(groups(q)), fresh(groups(q));
  q[4].mutable_grad() = torch::ones_like(q[4]);
  fresh.step();
  copy_through_archive(fresh, loaded);  // only the last parameter has a state in it
  train(loaded, q, 2, 2);
  for (std::size_t i = 0; i < q.size(); ++i) EXPECT_EQ(decay_of(loaded, q[i]), expected[i]) << i;
  const Tensors more = make_parameters(torch::kBFloat16, {{2}, {2}});
  optimizer.add_param_group(OptimizerParamGroup(more, with({1e-3, 2e-3})));
  static_cast<AdamWBF16Options&>(optimizer.param_groups()[2].options())
      .initial_accumulated_decay({1e-3});
  EXPECT_HAS(argument_error([&] { train(optimizer, more, 2, 2); }), "none for parameter 1");
}

// A rule whose state is made at construction, with initial values from a list.
constexpr const char* kEarly = R"(// Descent.   initial state: at construction
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::early_list {
struct Hyper {
  double lr = 1e-3;  // >= 0
  List scales = {};  // > 0
};
struct Slots {
  Signed m;
};
struct AuxState {
  Entry<tensor, double> scale;  // initial: scales
};
struct Scalars { real rate; };
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64, AuxState& m) {
    return {static_cast<real>(h.lr * m.scale.prev)};
  }
  KHD static void update_state(auto& e, const auto&) { e.m.next = (e.m.prev + e.g) / 2; }
  KHD static void update_param(auto& e, const auto& c) { e.p -= c.rate * e.m.next; }
};
}  // namespace jitstep::rules::early_list
)";

TEST(ListOption, OfStateMadeAtConstructionSkipsRepeatedParameters) {
  load_rule(own_file("early_list.cuh", kEarly));
  const Tensors p = make_parameters(torch::kFloat32, {{3}, {4}, {5}, {6}});
  const Warnings of_the_repeated;
  Optimizer optimizer("early_list", {p[0], p[1], p[0]},
                      GenericOptions(0.1).set("scales", jit::Value::Numbers{1, 2, 3, 4}));
  optimizer.add_parameters({p[2], p[2], p[3]});
  for (const bool stepped : {false, true}) {
    if (stepped) train(optimizer, p, 1, 1);
    for (std::size_t i = 0; i < p.size(); ++i) {
      const auto& state =
          static_cast<const ParamState&>(*optimizer.state().at(p[i].unsafeGetTensorImpl()));
      EXPECT_EQ(state.aux_state("scale").item<double>(), static_cast<double>(i + 1)) << i;
    }
  }
}

TEST_F(AuxState, OfAParameterHasTheShapeOfItsEntries) {
  const Tensors p = parameters();
  Optimizer opt = optimizer(p);
  train(opt, p, 1, 1);
  const torch::Tensor squares = p[0].grad().square().sum(1);
  EXPECT_TRUE(torch::allclose(state_of(opt, p[0]).aux_state("row"), squares));
  EXPECT_EQ(state_of(opt, p[1]).aux_state("row").dim(), 0) << "a vector has one row";
  EXPECT_EQ(state_of(opt, p[0]).aux_state("own").item<double>(), 2);
  EXPECT_EQ(state_of(opt, p[2]).aux_state("own_steps").item<double>(), 2) << "torch's name";
  const std::string found = argument_error([&] { state_of(opt, p[0]).aux_state("rows"); });
  EXPECT_NE(found.find("keeping has no auxiliary state \"rows\" for this parameter (did you mean "
                       "\"row\"?). It has: own, row"),
            std::string::npos)
      << found;
}

TEST_F(AuxState, SharedStateIsReadFromTheOptimizer) {
  const Tensors p = parameters();
  Optimizer opt = optimizer(p);
  train(opt, p, 1, 1);
  const std::string found = argument_error([&] { state_of(opt, p[0]).aux_state("total"); });
  EXPECT_NE(found.find("Call optimizer.aux_state(\"total\")"), std::string::npos) << found;
}

TEST_F(AuxState, IsUsedInTheNextStepAfterItIsSet) {
  const Tensors p = parameters();
  Optimizer opt = optimizer(p);
  train(opt, p, 1, 2);
  state_of(opt, p[0]).set_aux_state("own", torch::tensor(100.0, torch::kFloat64));
  opt.set_aux_state("total", 50);
  train(opt, p, 3, 3);
  EXPECT_EQ(state_of(opt, p[0]).aux_state("own").item<double>(), 200);
  EXPECT_EQ(state_of(opt, p[1]).aux_state("own").item<double>(), 8);
  double sum = 0;
  for (const auto& one : p) sum += one.grad().abs().sum().item<double>();
  EXPECT_NEAR(opt.aux_state("total"), 50 + 3 * sum, 1e-4);
  EXPECT_NE(argument_error([&] {
              state_of(opt, p[0]).set_aux_state("row", torch::zeros({3}));
            }).find("values of shape [5]"),
            std::string::npos);
}

TEST_F(AuxState, SharedStateOfTheOldRunIsNotKeptByALoad) {
  const Tensors p = parameters();
  Optimizer opt = optimizer(p);
  const double fresh = opt.aux_state("total");
  std::stringstream saved, again;
  torch::save(opt, saved);
  train(opt, p, 1, 3);
  ASSERT_NE(opt.aux_state("total"), fresh);
  torch::load(opt, saved);
  EXPECT_EQ(opt.aux_state("total"), fresh);
  torch::save(opt, again);
  Optimizer other = optimizer(p);
  torch::load(other, again);
  EXPECT_EQ(other.aux_state("total"), fresh);
}

TEST_F(AuxState, SharedStateRejectsNonFiniteValues) {
  const Tensors p = parameters();
  Optimizer opt = optimizer(p);
  train(opt, p, 1, 2);
  const double total = opt.aux_state("total");
  for (const double bad : {std::nan(""), double(INFINITY), -double(INFINITY)})
    EXPECT_NE(argument_error([&] {
                opt.set_aux_state("total", bad);
              }).find("keeping: the shared state \"total\" cannot be "),
              std::string::npos);
  EXPECT_EQ(opt.aux_state("total"), total);
  EXPECT_EQ(opt.aux_state("steps"), 2);
}

TEST_F(AuxState, SharedStateStartsFromTheFirstGroupsOptions) {
  const Tensors p = parameters();
  Groups groups;
  for (const double start : {7.0, 9.0})
    groups.emplace_back(Tensors{p[start == 7.0 ? 0 : 1]},
                        std::make_unique<GenericOptions>(GenericOptions().set("start", start)));
  Optimizer opt("keeping", groups, GenericOptions(0.1));
  EXPECT_EQ(opt.aux_state("total"), 7);
  EXPECT_EQ(opt.aux_state("k"), 0) << "torch's name";
  opt.set_aux_state("total", 1);
  EXPECT_EQ(opt.aux_state("total"), 1);
  train(opt, {p[1]}, 1, 1);
  EXPECT_NEAR(opt.aux_state("total"), 1 + p[1].grad().abs().sum().item<double>(), 1e-5);
  const std::string found = argument_error([&] { opt.aux_state("row"); });
  EXPECT_NE(found.find("keeping has no shared state \"row\". It has: steps, total"),
            std::string::npos)
      << found;
}

TEST_F(AuxState, SharedStateDoesNotDependOnTheGroups) {
  const Tensors p = parameters(), q = clones(p);
  Optimizer one = optimizer(p);
  Groups groups;
  for (const auto& parameter : q)  // one kernel per parameter
    groups.emplace_back(
        Tensors{parameter},
        std::make_unique<GenericOptions>(GenericOptions().state(groups.empty() ? "fp32" : "bf16")));
  Optimizer apart("keeping", groups, GenericOptions(0.1));
  train_with_gaps(one, p, 1, 7);
  train_with_gaps(apart, q, 1, 7);
  EXPECT_EQ(one.aux_state("steps"), 7);
  EXPECT_EQ(one.aux_state("total"), apart.aux_state("total"));
  EXPECT_TRUE(torch::equal(p[0], q[0]));
}

TEST_F(AuxState, ContinuesBitForBitFromAnArchive) {
  for (const char* codec : {"fp32", "int8"}) {
    const Tensors straight = parameters(), broken = clones(straight);
    Optimizer whole = optimizer(straight, codec), first = optimizer(broken, codec);
    train_with_gaps(whole, straight, 1, 8);
    train_with_gaps(first, broken, 1, 3);
    Optimizer second = optimizer(broken, codec);
    copy_through_archive(first, second);
    EXPECT_EQ(second.aux_state("steps"), 3);
    train_with_gaps(second, broken, 4, 8);
    expect_equal(straight, broken);
    EXPECT_EQ(whole.aux_state("total"), second.aux_state("total"));
  }
}

TEST_F(AuxState, StartsAgainWhenAllStateIsErased) {
  const Tensors p = parameters(), fresh = clones(p);
  Optimizer opt = optimizer(p), other = optimizer(fresh);
  train(opt, p, 1, 2);
  opt.state().clear();
  {
    torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < p.size(); ++i) p[i].copy_(fresh[i]);
  }
  train(opt, p, 3, 4);
  train(other, fresh, 3, 4);
  expect_equal(p, fresh);
  EXPECT_EQ(opt.aux_state("steps"), 2);
}

TEST_F(AuxState, UnderAConditionIsAddedAndRemovedAlone) {
  const Tensors p = parameters();
  Optimizer opt = optimizer(p);
  auto& options = static_cast<Options&>(opt.param_groups()[0].options());
  train(opt, p, 1, 2);
  const torch::Tensor row = state_of(opt, p[0]).aux_state("row").clone();
  options.put("doubling", false);
  train(opt, p, 3, 3);
  EXPECT_NE(argument_error([&] { state_of(opt, p[0]).aux_state("own"); }).find("It has: row"),
            std::string::npos);
  EXPECT_TRUE(
      torch::allclose(state_of(opt, p[0]).aux_state("row"), row + p[0].grad().square().sum(1)));
  options.put("doubling", true);
  train(opt, p, 4, 4);
  EXPECT_EQ(state_of(opt, p[0]).aux_state("own").item<double>(), 2) << "from its initial value";
  EXPECT_EQ(opt.aux_state("steps"), 4);
}

TEST_F(AuxState, DoesNotChangeInARejectedStep) {
  const Tensors p = parameters();
  Optimizer opt = optimizer(p);
  train(opt, p, 1, 2);
  const double total = opt.aux_state("total");
  set_gradients(p, 3);
  p[2].mutable_grad() = torch::ones({}, torch::kFloat32).to_sparse();
  EXPECT_ANY_THROW(opt.step());
  EXPECT_EQ(opt.aux_state("total"), total);
  EXPECT_EQ(opt.aux_state("steps"), 2);
  EXPECT_EQ(state_of(opt, p[0]).aux_state("own").item<double>(), 4);
}

TEST_F(AuxState, IsNotChangedByCompile) {
  const Tensors p = parameters();
  Optimizer opt = optimizer(p);
  opt.compile();
  EXPECT_EQ(opt.aux_state("total"), 3);
  train(opt, p, 1, 1);
  opt.compile();
  EXPECT_EQ(opt.aux_state("steps"), 1);
}

}  // namespace
}  // namespace jitstep::tests
