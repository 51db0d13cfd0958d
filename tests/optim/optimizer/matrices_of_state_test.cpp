// Host transforms that keep matrices of state.
#include "optim/training.h"

namespace jitstep::tests {
namespace {

// A rule whose parameter becomes its matrix of state, which grows by the step number in every step.
std::string rule_with_matrix() {
  static const std::string rule = [] {
    register_parameter_transform("grow", [](const TransformCall& call) {
      EXPECT_FALSE(call.matrix("absent").defined());
      if (call.matrix("cross").defined())
        call.matrices.at("cross") = call.matrix("cross") + static_cast<double>(call.step());
      const auto wrong = static_cast<int>(call.options.get("wrong").number());
      if (wrong == 1) call.matrices["crosses"] = call.values.t();
      if (wrong == 2) call.matrices["cross"] = call.values;
      if (wrong == 3) call.matrices["cross"] = torch::Tensor();
      if (wrong == 4) call.matrices["cross"] = call.matrix("cross").to(torch::kMeta);
      if (wrong == 5) call.matrices["cross"] = call.matrix("cross").to_sparse();
    });
    register_parameter_transform("show", [](const TransformCall& call) {
      TORCH_CHECK(call.options.get("fails").number() == 0, "no");
      if (const torch::Tensor matrix = call.matrix("cross"); matrix.defined())
        call.values.copy_(matrix.t());
    });
    return load_rule(own_file("with_matrix.cuh", R"(// A probe.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::with_matrix {
struct Hyper {
  double lr = 1;       // >= 0
  double fails = 0;    // finite
  double wrong = 0;    // finite
  double largest = 9;  // finite
};
struct Transforms {
  real first;   // host: grow
  real second;  // host: show
};
struct Matrices {
  Matrix<1, 0> cross;  // initial: 2; largest side: largest
};
struct Rule {
  KHD static real first(const auto& e, const auto&) { return e.g; }
  KHD static real second(const auto& e, const auto&) { return e.first; }
  KHD static void update_param(auto& e, const auto&) { e.p = e.second; }
};
}
)"));
  }();
  return rule;
}

torch::Tensor matrix_of(const Optimizer& optimizer, const torch::Tensor& p) {
  return static_cast<const ParamState&>(*optimizer.state().at(p.unsafeGetTensorImpl()))
      .aux_state("cross");
}

TEST(MatricesOfState, MayBecomeViewsOfEachOther) {
  register_parameter_transform("views", [](const TransformCall& call) {
    const torch::Tensor one = call.matrix("one"), other = call.matrix("other");
    if (call.step() == 1) {
      call.matrices["one"] = torch::arange(4.0f).reshape({2, 2});
    } else if (call.step() == 2) {
      call.matrices["one"] = other;
      call.matrices["other"] = one.t();
    } else {
      call.matrices["other"] = other.t();
    }
  });
  Tensors parameters = make_parameters(torch::kFloat32, {{2, 2}});
  Optimizer optimizer(load_rule(own_file("with_views.cuh", R"(// A probe.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::with_views {
struct Hyper {
  double lr = 1;  // >= 0
};
struct Transforms {
  real same;  // host: views
};
struct Matrices {
  Matrix<0, 0> one;    // initial: 3
  Matrix<0, 0> other;  // initial: 5
};
struct Rule {
  KHD static real same(const auto& e, const auto&) { return e.g; }
  KHD static void update_param(auto& e, const auto&) { e.p = e.same; }
};
}
)")),
                      parameters);
  const auto held = [&](const char* name) {
    void* const key = parameters[0].unsafeGetTensorImpl();
    return static_cast<const ParamState&>(*optimizer.state().at(key)).aux_state(name);
  };
  const torch::Tensor made = torch::arange(4.0f).reshape({2, 2});
  for (int step = 1; step <= 3; ++step) {
    set_gradients(parameters, step);
    optimizer.step();
    EXPECT_TRUE(torch::equal(held("one"), step == 1 ? made : 5 * torch::eye(2))) << step;
    EXPECT_TRUE(torch::equal(held("other"), step == 1   ? 5 * torch::eye(2)
                                            : step == 2 ? made.t()
                                                        : made))
        << step;
  }
}

TEST(MatricesOfState, AreSharedByTransformsAndUnchangedByAFailedOrSkippedStep) {
  Tensors parameters = make_parameters(torch::kFloat32, {{2, 3}, {4}, {2, 10}});
  Optimizer optimizer(rule_with_matrix(), parameters, GenericOptions());
  const torch::Tensor& p = parameters[0];
  const torch::Tensor start = 2 * torch::eye(3, 2);
  set_gradients(parameters, 1);
  optimizer.step();
  EXPECT_TRUE(torch::equal(matrix_of(optimizer, p), start + 1));
  EXPECT_TRUE(torch::equal(p.detach(), (start + 1).t()));
  for (const std::size_t none : {1, 2})
    EXPECT_TRUE(torch::equal(parameters[none].detach(), parameters[none].grad())) << none;

  auto& options = static_cast<GenericOptions&>(optimizer.param_groups()[0].options());
  options.set("fails", 1.0);
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "no");
  EXPECT_TRUE(torch::equal(matrix_of(optimizer, p), start + 1));
  options.set("fails", 0.0);

  optimizer.set_found_inf(torch::ones({}));
  optimizer.step();
  EXPECT_TRUE(torch::equal(matrix_of(optimizer, p), start + 1));
  optimizer.set_found_inf(torch::zeros({}));
  optimizer.step();
  EXPECT_TRUE(torch::equal(matrix_of(optimizer, p), start + 3))
      << "the skipped step does not count";
}

TEST(MatricesOfState, KeepTheirNamesAndSizes) {
  Tensors parameters = make_parameters(torch::kFloat32, {{2, 3}});
  Optimizer optimizer(rule_with_matrix(), parameters, GenericOptions());
  set_gradients(parameters, 1);
  const Tensors before = clones(parameters);
  auto& options = static_cast<GenericOptions&>(optimizer.param_groups()[0].options());
  for (const auto& [wrong, named] :
       std::map<double, std::string>{{1, "the matrix \"crosses\""},
                                     {2, "[3, 2]"},
                                     {3, "no tensor to the matrix \"cross\""},
                                     {4, "a dense floating-point tensor"},
                                     {5, "a dense floating-point tensor"}}) {
    options.set("wrong", wrong);
    const std::string error = argument_error([&] { optimizer.step(); });
    EXPECT_HAS(error, "\"grow\"");
    EXPECT_HAS(error, named);
    expect_equal(parameters, before);
  }
  options.set("wrong", 0.0);
  optimizer.step();
  EXPECT_TRUE(torch::equal(matrix_of(optimizer, parameters[0]), 2 * torch::eye(3, 2) + 1));
}

TEST(MatricesOfState, AreInArchives) {
  const auto shapes = std::vector<std::vector<std::int64_t>>{{2, 3}, {4}, {2, 10}};
  Tensors parameters = make_parameters(torch::kFloat32, shapes), others = clones(parameters);
  Optimizer optimizer(rule_with_matrix(), parameters, GenericOptions()),
      loaded(rule_with_matrix(), others, GenericOptions());
  train(optimizer, parameters, 1, 3);
  EXPECT_EQ(optimizer.memory_report().state_bytes(), 4 * 6);
  copy_through_archive(optimizer, loaded);
  train(optimizer, parameters, 4, 5);
  train(loaded, others, 4, 5);
  expect_equal(parameters, others);
  EXPECT_TRUE(torch::equal(matrix_of(loaded, others[0]), matrix_of(optimizer, parameters[0])));
}

TEST(MatricesOfState, StatisticsOfPreconditionersStayFinite) {
  for (const std::string rule : {"shampoo", "soap"}) {
    SCOPED_TRACE(rule);
    Tensors parameters = make_parameters(torch::kFloat32, {{6, 5}});
    Optimizer optimizer(rule, parameters, GenericOptions().set("precondition_frequency", 3));
    const auto step_with_nan = [&] {
      parameters[0].mutable_grad() = torch::full({6, 5}, NAN);
      optimizer.step();
    };
    EXPECT_THROW(step_with_nan(), c10::Error) << "the first step decomposes them";
    train(optimizer, parameters, 1, 1);
    step_with_nan();
    const auto& state = state_of(optimizer, parameters[0]);
    EXPECT_TRUE(state.aux_state(rule == "soap" ? "gg0" : "l0").isfinite().all().item<bool>());
    if (rule == "soap") train(optimizer, parameters, 3, 3);  // the fourth refreshes the bases
    EXPECT_THROW(step_with_nan(), c10::Error);
    EXPECT_EQ(state.step(), rule == "soap" ? 3 : 2);
    EXPECT_NO_THROW(train(optimizer, parameters, 4, 4));
  }
}

}  // namespace
}  // namespace jitstep::tests
