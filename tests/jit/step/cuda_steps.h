// Fixture for tests of steps on fake GPUs.
#pragma once

#include "jit/fixtures.h"
#include "jit/step/cuda_backend.h"
#include "jit/step/step_fixtures.h"
#include "support/fake_driver.h"

namespace jitstep::jit::testing {

using support::FakeDriver;
using support::FakeHost;
using Calls = std::vector<std::string>;

// One engine, and one back end for each of two GPUs. Streams 0 and 1 are their default streams.
class CudaSteps : public ::testing::Test {
 protected:
  FakeDriver fake;
  testing::TemporaryFolder folder;
  Engine engine{testing::settings_with_cache(folder.path()),
                {.nvrtc = std::make_shared<support::FakeCompiler>(),
                 .driver = std::make_shared<CudaDriver>(FakeDriver::api())}};
  FakeHost* hosts[2] = {};
  CudaBackend backends[2] = {backend(0), backend(1)};

  CudaBackend backend(int device) {
    auto host = std::make_unique<FakeHost>(fake, device);
    hosts[device] = host.get();
    return CudaBackend(engine, device, std::move(host));
  }

  std::unique_ptr<Step> step_of(const Plan& plan, int count = 3, std::int64_t size = 10,
                                int device = 0) {
    return std::make_unique<Step>(backends[device],
                                  std::vector<Batch>{{plan, tensors(count, size)}});
  }

  static void step(Step& of, std::int64_t t) { of.run(inputs(of.size()), {at_step(t)}); }
};

}  // namespace jitstep::jit::testing
