// OrderedAllReduce, for communication hooks, gives the bits of average_gradients().
#include "optim_shard/own_gradients.h"

namespace jitstep::tests {
namespace {

class AllReduces : public testing::TestWithParam<std::tuple<torch::ScalarType, int>> {};

TEST_P(AllReduces, GiveTheBitsOfAveragedGradients) {
  const auto [dtype, size] = GetParam();
  EXPECT_EQ(on_ranks(size,
                     [dtype = dtype](int rank, const Group& group) {
                       Tensors parameters = model(dtype);
                       set_gradients(parameters, 10 + rank);
                       Tensors buckets;
                       for (const torch::Tensor& p : parameters)
                         buckets.push_back(p.grad().contiguous().clone());
                       average_gradients(parameters, group);
                       OrderedAllReduce reduce(group);
                       for (const int repeat : {1, 2}) {
                         std::vector<c10::intrusive_ptr<c10::ivalue::Future>> means;
                         for (std::size_t i = 0; i < buckets.size(); ++i)
                           means.push_back(reduce.start(buckets[i], i + 1 == buckets.size()));
                         for (std::size_t i = 0; i < buckets.size(); ++i) {
                           means[i]->waitAndThrow();
                           EXPECT_TRUE(means[i]->value().toTensor().is_same(buckets[i]));
                           EXPECT_TRUE(torch::equal(buckets[i], parameters[i].grad()))
                               << i << ", repeat " << repeat;
                         }
                         average_gradients(parameters, group);  // of equal gradients
                       }
                     }),
            no_errors(size));
}
INSTANTIATE_TEST_SUITE_P(Of, AllReduces,
                         testing::Combine(testing::Values(torch::kFloat32, torch::kBFloat16),
                                          testing::Values(1, 2, 3)));

TEST(OrderedAllReduces, RefuseOtherTensorsAndNoGroup) {
  EXPECT_THROW(OrderedAllReduce{Group()}, c10::Error);
  EXPECT_EQ(on_ranks(1,
                     [](int, const Group& group) {
                       OrderedAllReduce reduce(group);
                       const auto refused = [&](const torch::Tensor& values) {
                         EXPECT_THROW(reduce.start(values, true), c10::Error);
                       };
                       refused({});
                       refused(torch::ones({3}, torch::kInt64));
                       refused(torch::ones({3, 2}).t());
                     }),
            no_errors(1));
}

}  // namespace
}  // namespace jitstep::tests
