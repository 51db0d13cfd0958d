// average_gradients() gives a mean that depends on the ranks' gradients alone.
#include "optim_shard/ranks.h"

namespace jitstep::tests {
namespace {

// A rank's own gradients: of several layouts, and absent on some ranks or on all.
void set_own_gradients(const Tensors& parameters, int rank) {
  set_gradients(parameters, 10 + rank);
  if (rank != 1) parameters[3].mutable_grad() = torch::Tensor();
  parameters[7].mutable_grad() = torch::Tensor();
}

// The mean by a plain recursion over ranks, rounded once.
torch::Tensor sum_of(const Tensors& all, std::size_t first, std::size_t width) {
  if (width == 1) return all[first];
  const torch::Tensor left = sum_of(all, first, width / 2);
  return first + width / 2 < all.size() ? left + sum_of(all, first + width / 2, width / 2) : left;
}
Tensors expected_means(torch::ScalarType dtype, int size) {
  std::vector<Tensors> models;
  for (int rank = 0; rank < size; ++rank) {
    models.push_back(model(dtype));
    set_own_gradients(models.back(), rank);
  }
  Tensors means;
  for (std::size_t i = 0; i < models[0].size(); ++i) {
    Tensors all;
    for (const Tensors& one : models)
      all.push_back(one[i].grad().defined() ? one[i].grad().to(torch::kFloat32)
                                            : torch::zeros_like(one[i], torch::kFloat32));
    means.push_back((sum_of(all, 0, 8) / size).to(dtype));
  }
  return means;
}

class Averages : public testing::TestWithParam<std::tuple<torch::ScalarType, std::int64_t>> {};

TEST_P(Averages, AreTreesOverRanksThatAreRoundedOnce) {
  const auto [dtype, bucket_bytes] = GetParam();
  for (const int size : {2, 3, 4, 8}) {
    const Tensors expected = expected_means(dtype, size);
    const auto errors =
        on_ranks(size, [&, dtype = dtype, bytes = bucket_bytes](int rank, const Group& group) {
          const Tensors parameters = model(dtype);
          set_own_gradients(parameters, rank);
          average_gradients(parameters, group, bytes);
          for (std::size_t i = 0; i + 1 < parameters.size(); ++i)
            EXPECT_TRUE(torch::equal(parameters[i].grad(), expected[i])) << size << " " << i;
          EXPECT_FALSE(parameters.back().grad().defined());
        });
    ASSERT_EQ(errors, no_errors(size));
  }
}
INSTANTIATE_TEST_SUITE_P(Of, Averages,
                         testing::Combine(testing::Values(torch::kFloat32, torch::kBFloat16),
                                          testing::Values(0, 20000, 1 << 20)));

TEST(AveragedGradients, OfOneRankAreUnchanged) {
  EXPECT_EQ(on_ranks(1,
                     [](int, const Group& group) {
                       const Tensors parameters = model();
                       set_own_gradients(parameters, 0);
                       const torch::Tensor before = parameters[0].grad().clone();
                       average_gradients(parameters, group);
                       EXPECT_TRUE(torch::equal(parameters[0].grad(), before));
                       EXPECT_FALSE(parameters[3].grad().defined());
                     }),
            no_errors(1));
}

TEST(AveragedGradients, MayBeExpanded) {
  EXPECT_EQ(on_ranks(2,
                     [](int rank, const Group& group) {
                       const torch::Tensor p = torch::zeros({1000}).set_requires_grad(true);
                       p.mutable_grad() = torch::full({1}, 1.0 + rank).expand({1000});
                       average_gradients({p}, group, 1);
                       EXPECT_TRUE(torch::equal(p.grad(), torch::full({1000}, 1.5)));
                     }),
            no_errors(2));
}

TEST(AveragedGradients, OfFloat64AreAddedInFloat64) {
  EXPECT_EQ(on_ranks(2,
                     [](int rank, const Group& group) {
                       const Tensors parameters = {
                           torch::zeros({1}, torch::kFloat64).set_requires_grad(true)};
                       parameters[0].mutable_grad() =
                           torch::full({1}, rank == 0 ? 2.0 : 2e-12, torch::kFloat64);
                       average_gradients(parameters, group);
                       EXPECT_EQ(parameters[0].grad().item<double>(), 1.0 + 1e-12);
                     }),
            no_errors(2));
}

// Three ranks, of which rank 1 changes its model. Expects an error on each rank, and unchanged gradients. Returns the
// errors.
std::vector<std::string> errors_of(const std::function<void(Tensors& parameters)>& change) {
  return on_ranks(
      3,
      [&](int rank, const Group& group) {
        Tensors parameters = model();
        set_gradients(parameters, 1);
        if (rank == 1) change(parameters);
        const torch::Tensor before = parameters[1].grad().clone();
        EXPECT_THROW(
            try { average_gradients(parameters, group); } catch (const c10::Error&) {
              EXPECT_TRUE(torch::equal(parameters[1].grad(), before));
              throw;
            },
            c10::Error);
        average_gradients(parameters, group);
      },
      std::chrono::seconds(20));
}

void expect_all_contain(const std::vector<std::string>& errors, const std::string& what) {
  for (const std::string& error : errors) EXPECT_NE(error.find(what), error.npos) << error;
}

TEST(AveragedGradients, OfOtherSizesOnARankAreRefused) {
  expect_all_contain(errors_of([](Tensors& parameters) {
                       parameters[3] = torch::zeros({4094}).set_requires_grad(true);
                     }),
                     "parameter 3");
}

TEST(AveragedGradients, OfAnotherNumberOfParametersOnARankAreRefused) {
  expect_all_contain(errors_of([](Tensors& parameters) { parameters.resize(7); }), "rank 1");
}

TEST(AveragedGradients, OfAnotherDtypeOnARankAreRefused) {
  expect_all_contain(errors_of([](Tensors& parameters) {
                       parameters[2].mutable_grad() = torch::zeros({}, torch::kBFloat16);
                     }),
                     "parameter 2");
}

TEST(AveragedGradients, ThatAreSparseOnARankAreRefusedByAllRanks) {
  const auto errors = errors_of([](Tensors& parameters) {
    parameters[0].mutable_grad() = torch::zeros(parameters[0].sizes()).to_sparse();
  });
  expect_all_contain({errors[0], errors[2]}, "rank 1 failed");
  expect_all_contain({errors[1]}, "parameter 0");
}

TEST(AveragedGradients, OfAnotherShapeThanTheirParameterAreRefusedByAllRanks) {
  const auto errors =
      errors_of([](Tensors& parameters) { parameters[3].set_data(torch::zeros({5})); });
  expect_all_contain({errors[0], errors[2]}, "rank 1");
  expect_all_contain({errors[1]}, "parameter 3");
}

TEST(AveragedGradients, NeedAGroup) {
  EXPECT_THROW(average_gradients(model(), Group()), c10::Error);
}

}  // namespace
}  // namespace jitstep::tests
