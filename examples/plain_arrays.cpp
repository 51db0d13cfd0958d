// Uses your own optimizer on plain arrays, without torch. The rule in signum.cuh becomes one fused kernel. It must give
// the same bits as the loop below.
#include <jitstep/jit/engine.h>
#include <jitstep/jit/state_storage.h>
#include <jitstep/jit/step.h>

#include <cmath>
#include <iostream>
#include <vector>

namespace jit = jitstep::jit;

namespace {

// The formulas of signum.cuh as a plain loop, with lr 0.01, momentum 0.9 and weight decay 0.1.
void signum_loop(std::vector<float>& p, std::vector<float>& m, const std::vector<float>& g) {
  const auto lr = static_cast<float>(0.01), momentum = static_cast<float>(0.9);
  const auto fresh = static_cast<float>(1 - 0.9), shrink = static_cast<float>(1 - 0.01 * 0.1);
  for (std::size_t i = 0; i < p.size(); ++i) {
    m[i] = std::fma(momentum, m[i], fresh * g[i]);
    p[i] = p[i] * shrink - lr * static_cast<float>((m[i] > 0) - (m[i] < 0));
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const char* const file = count > 1 ? arguments[1] : EXAMPLE_RULE;
    jit::OptionValues options(jit::default_catalog().load_rule(file).name);
    options.set("lr", 0.01);
    options.set("weight_decay", 0.1);

    std::vector<float> p(10000), g(p.size()), expected(p.size()), m(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) expected[i] = p[i] = std::sin(0.01f * float(i));

    jit::CpuBackend cpu(jit::default_engine());
    const jit::Plan plan = jit::resolve(options);  // or (options, {"int8"}), {"int4"}
    const jit::StateStorage state(cpu, plan, options, {std::int64_t(p.size())});
    jit::Step step(cpu, {{plan, {state.tensor(p.data())}}});
    for (int t = 1; t <= 100; ++t) {
      g = p;  // the gradient of half the sum of squares
      step.run({{.g = g.data()}}, {plan.at_step(options, t)});
      signum_loop(expected, m, g);
    }
    std::cout << step.kernel().name() << ": p[157] = " << p[157] << " after 100 steps, "
              << state.bytes() << " bytes of state\n";
    return p == expected ? 0 : 1;
  } catch (const jit::Error& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
