// A copied state is resized in every state format. copied_state_test.cpp has one format of each kind.
#include "optim/state/resized_copies.h"

namespace jitstep::tests {
namespace {

TEST(CopiedStates, AreResizedInEveryStateFormat) {
  for (const std::string& codec : shipped(jit::Manifest::Kind::codec)) {
    expect_resized(codec, torch::kFloat32, "native", Way::constructor, longer);
    expect_resized(codec, torch::kFloat32, "native", Way::clone, shorter);
  }
}

TEST(CopiedStates, AreResizedInEveryWeightFormat) {
  for (const char* weights : {"stochastic", "master", "split16", "split8", "kahan"})
    expect_resized("int8", torch::kBFloat16, weights, Way::constructor, longer);
}

}  // namespace
}  // namespace jitstep::tests
