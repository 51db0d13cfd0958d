// What cost other optimizer libraries correctness or time on GPUs, each held here as a test.
// tests/optim/peers_defects_test.cpp has what shows on a CPU.
#include <set>

#include "jit/step/cuda_steps.h"
#include "jitstep/jit/unit.h"

namespace jitstep::jit {
namespace {

using namespace testing;

using PeersDefectsOnGpu = CudaSteps;

std::string name_of(const std::string& call) { return call.substr(0, call.find(' ')); }

// bitsandbytes: kernels went to the default stream whatever torch's was, and the whole device was
// waited for after each parameter.
TEST_F(PeersDefectsOnGpu, AStepTakesTheCurrentStreamAndWaitsForNothing) {
  hosts[0]->current = fake.new_stream();
  const auto of = step_of(plan("adamw"), 30);
  step(*of, 1);
  fake.clear();
  step(*of, 2);
  std::set<std::string> used;
  for (const auto& call : fake.calls) used.insert(name_of(call));
  EXPECT_EQ(used.count("cuLaunchKernel"), 1u);
  // A call that waits for a stream or a device is not even in the table.
  for (const auto& name : FakeDriver::function_names())
    EXPECT_EQ(name.find("Synchronize"), std::string::npos) << name;
  fake.drain();
  ASSERT_EQ(fake.runs.size(), 2u);
  for (const auto& run : fake.runs) EXPECT_EQ(run.stream, hosts[0]->current);
}

// bitsandbytes: each tensor's norm for LAMB and LARS came to the host and went back.
TEST_F(PeersDefectsOnGpu, NormsStayOnTheDeviceHoweverManyTensorsThereAre) {
  std::vector<std::vector<std::string>> calls;
  for (const int count : {3, 300}) {
    const auto of = step_of(plan("lamb", true), count);
    step(*of, 1);
    fake.clear();
    step(*of, 2);
    calls.emplace_back();
    for (const auto& call : fake.calls) calls.back().push_back(name_of(call));
    EXPECT_EQ(fake.calls_of("cuLaunchKernel").size(), 5u);
  }
  EXPECT_EQ(calls[0], calls[1]);
  for (const auto& name : FakeDriver::function_names())
    EXPECT_EQ(name.find("DtoH"), std::string::npos) << name;
}

// torch's fused kernels, once: bfloat16 was computed in double, slow on consumer GPUs. Here a step's
// few numbers are (`prepare`) and sums over tensors, but nothing that an element becomes.
TEST(PeersDefectsOfText, NoElementOfAFloatKernelBecomesADouble) {
  const Target ptx = Target::cuda(91);  // no such GPU, so the result is text
  const auto widens = [&](const char* rule, const char* codec, Dtype dtype) {
    KernelSpec of = support::spec_of(rule, codec);
    of.state.dtype = of.gradient = dtype;
    const Plan plan = resolve(of);
    const Unit made = unit(plan, default_kernel_config(plan, ptx), ptx);
    const auto built = default_engine().build(made.text, made.name, ptx);
    const auto& image = built->binary.image;
    const std::string text(reinterpret_cast<const char*>(image.data()), image.size());
    EXPECT_NE(text.find("cvt.rn.f32.f64"), std::string::npos);  // the step's numbers, to float
    const std::size_t first = text.find("cvt.f64.f32");  // of a learning rate in a tensor, once
    return text.find("cvt.f64.f32", first + 1) != std::string::npos;
  };
  for (const char* codec : {"fp32", "bf16", "int8", "int4"})
    for (const Dtype dtype : {Dtype::float32, Dtype::bfloat16})
      EXPECT_FALSE(widens("adamw", codec, dtype)) << codec << " " << to_string(dtype);
  EXPECT_TRUE(widens("lamb", "fp32", Dtype::float32));  // its norms: so it is seen where it is
}

}  // namespace
}  // namespace jitstep::jit
