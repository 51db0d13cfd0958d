#include "bound.h"

#include <cmath>
#include <stdexcept>

// Tells the compiler that the arrays do not overlap.
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace jitstep::bench {
namespace {

using std::int64_t;

template <class Weight, class State, int arrays>
void baseline_loop(const Streams& at, int64_t begin, int64_t end) {
  auto* p = static_cast<Weight*>(at.p);
  auto* g = static_cast<const Weight*>(at.g);
  auto* first = static_cast<State*>(at.state[0]);
  auto* second = static_cast<State*>(at.state[1]);
  auto* third = static_cast<State*>(at.state[2]);
  INDEPENDENT
  for (int64_t i = begin; i < end; ++i) {
    p[i] = static_cast<Weight>(p[i] ^ (g[i] & 1));
    first[i] ^= 1;
    if constexpr (arrays > 1) second[i] ^= 1;
    if constexpr (arrays > 2) third[i] ^= 1;
  }
}

}  // namespace

Loop bandwidth_baseline(const std::string& weights, const std::string& state, int arrays) {
  using Float = std::uint32_t;
  using Half = std::uint16_t;
  const struct {
    const char *weights, *state;
    int arrays;
    Loop loop;
  } loops[] = {{"float32", "float32", 2, baseline_loop<Float, Float, 2>},
               {"float32", "bfloat16", 2, baseline_loop<Float, Half, 2>},
               {"float32", "uint8", 2, baseline_loop<Float, std::uint8_t, 2>},
               {"float32", "uint8", 1, baseline_loop<Float, std::uint8_t, 1>},
               {"bfloat16", "bfloat16", 2, baseline_loop<Half, Half, 2>},
               {"bfloat16", "bfloat16", 3, baseline_loop<Half, Half, 3>}};
  for (const auto& one : loops)
    if (one.weights == weights && one.state == state && one.arrays == arrays) return one.loop;
  throw std::invalid_argument("there is no bandwidth baseline for " + weights + " with " +
                              std::to_string(arrays) + " arrays of " + state +
                              ". Add it in bench/bound.cpp.");
}

void plain_adamw(const Streams& at, int64_t begin, int64_t end) {
  constexpr float kLr = 1e-3f, kDecay = 1e-2f, kBeta1 = 0.9f, kBeta2 = 0.999f, kEps = 1e-8f;
  constexpr float kStep = kLr / (1 - kBeta1);
  const float root = 1 / std::sqrt(1 - kBeta2);
  auto* p = static_cast<float*>(at.p);
  auto* g = static_cast<const float*>(at.g);
  auto* m = static_cast<float*>(at.state[0]);
  auto* v = static_cast<float*>(at.state[1]);
  INDEPENDENT
  for (int64_t i = begin; i < end; ++i) {
    m[i] = kBeta1 * m[i] + (1 - kBeta1) * g[i];
    v[i] = kBeta2 * v[i] + (1 - kBeta2) * g[i] * g[i];
    p[i] = p[i] * (1 - kLr * kDecay) - kStep * m[i] / (std::sqrt(v[i]) * root + kEps);
  }
}

}  // namespace jitstep::bench
