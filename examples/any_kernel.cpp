// Compiles, caches and calls a kernel that is not an optimizer.
#include <jitstep/jit/engine.h>

#include <cmath>
#include <iostream>
#include <vector>

namespace jit = jitstep::jit;

constexpr const char* kSwish = R"(
  struct Args { const float* x; float* y; };
  extern "C" [[gnu::visibility("default")]]
  void swish(const void* args, long long begin, long long end) {
    const auto [x, y] = *static_cast<const Args*>(args);
    for (long long i = begin; i < end; ++i) y[i] = x[i] / (1 + __builtin_expf(-x[i]));
  })";

int main() {
  const auto kernel = jit::default_engine().kernel(kSwish, "swish", jit::Target::cpu());
  const std::vector<float> x = {-2, -1, 0, 1, 2};
  std::vector<float> y(x.size());
  const struct {
    const float* x;
    float* y;
  } args = {x.data(), y.data()};
  kernel->cpu("swish")(&args, 0, static_cast<long long>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::cout << "swish(" << x[i] << ") = " << y[i] << "\n";
    if (std::abs(y[i] - x[i] / (1 + std::exp(-x[i]))) > 1e-6f) return 1;
  }
}
