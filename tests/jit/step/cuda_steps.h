// What the tests of steps on a GPU that is not there share.
#pragma once

#include "jit/fixtures.h"
#include "jit/step/cuda_machine.h"
#include "jitstep/jit/step_group.h"
#include "support/bits.h"
#include "support/fake_driver.h"

namespace jitstep::jit::testing {

using support::FakeDriver;
using support::FakeHost;
using Calls = std::vector<std::string>;

inline std::vector<StepTensor> tensors(int count, std::int64_t size) {
  std::vector<StepTensor> made(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    made[i].shape = {{size}, {1}};
    made[i].g_strides = {1};
    made[i].slots.resize(2);
    made[i].id = i;
  }
  return made;
}

inline KernelSpec spec(const std::string& rule, bool clipped = false) {
  KernelSpec spec = support::spec_of(rule, "fp32");
  OptionValues values(rule);
  if (clipped) values.set("max_grad_norm", 1.0);
  spec.flags = values.flags();
  spec.gradient_flags = values.gradient_flags();
  const auto& slots = default_catalog().rule(rule).slots;
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (!is_stored(slots[i], spec.flags)) spec.slots[i].reset();
  return resolve(spec).spec;
}

// An engine and a machine for each of two GPUs. Streams 0 and 1 are their default ones.
class CudaSteps : public ::testing::Test {
 protected:
  FakeDriver fake;
  testing::TemporaryFolder folder;
  Engine engine{testing::settings_with_cache(folder.path()),
                {.nvrtc = std::make_shared<support::FakeCompiler>(),
                 .driver = std::make_shared<CudaDriver>(FakeDriver::api())}};
  FakeHost* hosts[2] = {};
  CudaMachine machines[2] = {machine(0), machine(1)};

  CudaMachine machine(int device) {
    auto host = std::make_unique<FakeHost>(fake, device);
    hosts[device] = host.get();
    return CudaMachine(engine, device, std::move(host));
  }

  std::unique_ptr<StepGroup> group(const KernelSpec& of, int count = 3, std::int64_t size = 10,
                                   int device = 0) {
    const Plan plan = resolve(of);
    const Variant variant = default_variant(plan, machines[device].target());
    return std::make_unique<StepGroup>(machines[device], plan, variant, tensors(count, size));
  }

  static void step(StepGroup& of, std::int64_t t) {
    HyperSet set{};
    set.t = t;
    run_step({&of}, {std::vector<StepInput>(of.size())}, {set});
  }
};

}  // namespace jitstep::jit::testing
