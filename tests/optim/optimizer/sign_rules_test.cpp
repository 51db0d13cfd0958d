// Rules that use the sign of something: the sign of NaN must be NaN, not 0.
#include <cmath>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

constexpr const char* kElementwise[] = {
    R"({"rule": "rprop")",
    R"({"rule": "tiger")",
    R"({"rule": "lion")",
    R"({"rule": "tiger", "options": {"weight_decouple": false})",
    R"({"rule": "lion", "options": {"weight_decay": 0.1, "betas": [0.5, 0.7]})",
    R"({"rule": "lion", "options": {"caution": true})"};

// Three steps, one of which has a gradient with a NaN in its last element.
torch::Tensor stepped(const std::string& spec, std::vector<std::int64_t> sizes, int bad_step) {
  const auto p = torch::ones(sizes).requires_grad_();
  const auto optimizer = Optimizer::from_spec({p}, spec);
  for (int step = 1; step <= 3; ++step) {
    set_gradients({p}, step);
    if (step == bad_step) p.mutable_grad().view(-1)[-1] = std::nan("");
    optimizer->step();
  }
  return p.detach().flatten();
}

// torch::sign(NaN) is 0. Such an element would stand still, and forever if the NaN reaches its average.
TEST(SignRules, GiveNanForAnElementWhoseGradientIsNan) {
  ASSERT_EQ(torch::sign(torch::tensor(NAN)).item<float>(), 0)
      << "torch no longer has this behavior";
  for (const std::string rule : kElementwise)
    for (const std::string state : {"fp32", "bf16", "int8"})
      for (const std::int64_t size : {1, 7, 257})
        for (const int bad_step : {1, 2, 3}) {
          const std::string spec =
              rule + R"(, "min_quantized_size": 0, "state": ")" + state + "\"}";
          SCOPED_TRACE(spec);
          const auto p = stepped(spec, {size}, bad_step), whole = stepped(spec, {size}, 0);
          EXPECT_TRUE(std::isnan(p[size - 1].item<float>())) << bad_step;
          EXPECT_TRUE(torch::isfinite(p.slice(0, 0, size - 1)).all().item<bool>());
          EXPECT_TRUE(torch::isfinite(whole).all().item<bool>());
          if (state == "int8" || rule.find("caution") != rule.npos)
            continue;  // one NaN affects the other elements
          EXPECT_TRUE(torch::equal(p.slice(0, 0, size - 1), whole.slice(0, 0, size - 1)));
        }
}

// MARS first divides the gradient by the norm of its tensor.
TEST(SignRules, GiveNanForATensorWhenMarsClipsAGradientWithANan) {
  const std::string spec = R"({"rule": "mars", "options": {"mars_type": "lion"}})";
  for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{1, 1}, {3, 5}, {16, 33}})
    for (const int bad_step : {1, 2}) {
      EXPECT_TRUE(torch::isnan(stepped(spec, sizes, bad_step)).all().item<bool>());
      EXPECT_TRUE(torch::isfinite(stepped(spec, sizes, 0)).all().item<bool>());
    }
}

}  // namespace
}  // namespace jitstep::tests
