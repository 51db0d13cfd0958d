// A separate process for the tests of the cache. The environment selects whether it makes kernels or computes keys. It
// prints one line for each.
#include <iostream>

#include "jit/cache/cache_fixtures.h"
#include "jit/codegen/unit.h"
#include "jit/compiler/host_compiler.h"
#include "jit/compiler/nvrtc_compiler.h"

namespace jitstep::jit {
namespace {

// Three kernels, so that processes race for several entries. The sums show that each kernel is the right one.
void print_kernels() {
  Engine engine(Settings::from_environment());
  for (const char* term : {"1", "2", "3"}) {
    const auto kernel = engine.kernel(testing::adding_unit(term), "unit", Target::cpu());
    std::cout << testing::add_to(*kernel, 10) << " " << kernel->key() << "\n";
  }
}

// Computes the keys that an engine would use, without the time to compile.
void print_keys(bool with_gpu) {
  Settings settings = Settings::from_environment();
  settings.cache_bytes = 0;
  Engine engine(settings,
                {.host = std::make_shared<testing::IdentityOnly<HostCompiler>>(settings),
                 .nvrtc = std::make_shared<testing::IdentityOnly<NvrtcCompiler>>(settings)});
  for (const char* rule : {"sgd", "adam", "adamw", "lamb"}) {
    KernelSpec spec{.rule = rule};
    spec.state.slots.resize(default_catalog().rule(rule).slots.size(), CodecChoice{"int8"});
    for (const Target& target : {Target::cpu(), Target::emulated(), Target::cuda(90)}) {
      if (target.is_cuda() && !with_gpu) continue;
      const Plan plan = resolve(spec);
      const Unit made = unit(plan, default_kernel_config(plan, target), target);
      std::cout << made.name << " " << engine.build(made.text, made.name, target)->key << "\n";
    }
  }
}

}  // namespace
}  // namespace jitstep::jit

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "kernels") {
    jitstep::jit::print_kernels();
  } else if (what == "keys" || what == "keys_with_gpu") {
    jitstep::jit::print_keys(what == "keys_with_gpu");
  } else {
    return 2;
  }
  return 0;
}
