// Defects of other optimizer libraries on GPUs that cost correctness or time. Each is a test here.
// tests/optim/optimizer/other_libraries_defects_test.cpp has those that show on a CPU.
#include <set>

#include "jit/codegen/unit.h"
#include "jit/step/cuda_steps.h"

namespace jitstep::jit {
namespace {

using namespace testing;

using OtherLibrariesDefectsOnGpu = CudaSteps;

std::string name_of(const std::string& call) { return call.substr(0, call.find(' ')); }

// bitsandbytes: kernels ran on the default stream whatever torch's current stream was, and the host waited for the
// whole device after each parameter.
TEST_F(OtherLibrariesDefectsOnGpu, AStepRunsOnTheCurrentStreamAndDoesNotWait) {
  hosts[0]->current = fake.new_stream();
  const auto of = step_of(plan("adamw"), 30);
  step(*of, 1);
  fake.clear();
  step(*of, 2);
  std::set<std::string> used;
  for (const auto& call : fake.calls) used.insert(name_of(call));
  EXPECT_EQ(used.count("cuLaunchKernel"), 1u);
  // The table of driver functions has no call that waits for a stream or a device.
  for (const auto& name : FakeDriver::function_names())
    EXPECT_EQ(name.find("Synchronize"), std::string::npos) << name;
  fake.drain();
  ASSERT_EQ(fake.runs.size(), 2u);
  for (const auto& run : fake.runs) EXPECT_EQ(run.stream, hosts[0]->current);
}

// bitsandbytes: for LAMB and LARS, each tensor's norm went to the host and back.
TEST_F(OtherLibrariesDefectsOnGpu, NormsStayOnTheDeviceHoweverManyTensorsThereAre) {
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

// An earlier version of torch's fused kernels computed bfloat16 in double, which is slow on consumer GPUs. Here only
// the few scalars of a step (`prepare`) and sums over tensors are double, never an element's values.
TEST(OtherLibrariesDefectsInPtx, NoElementOfAFloatKernelIsWidenedToDouble) {
  const Target ptx = Target::cuda(91);  // no such GPU, so the result is PTX text
  const auto widens = [&](const char* rule, const char* codec, Dtype dtype) {
    KernelSpec of = support::spec_of(rule, codec);
    of.state.dtype = of.gradient = dtype;
    const Plan plan = resolve(of);
    const Unit made = unit(plan, default_kernel_config(plan, ptx), ptx);
    const auto built = default_engine().build(made.text, made.name, ptx);
    const auto& image = built->binary.image;
    const std::string text(reinterpret_cast<const char*>(image.data()), image.size());
    EXPECT_NE(text.find("cvt.rn.f32.f64"), std::string::npos);  // scalars of the step
    const std::size_t first = text.find("cvt.f64.f32");         // once: lr in a tensor
    return text.find("cvt.f64.f32", first + 1) != std::string::npos;
  };
  for (const char* codec : {"fp32", "bf16", "int8", "int4"})
    for (const Dtype dtype : {Dtype::float32, Dtype::bfloat16})
      EXPECT_FALSE(widens("adamw", codec, dtype)) << codec << " " << to_string(dtype);
  EXPECT_TRUE(widens("lamb", "fp32", Dtype::float32));  // its norms; shows that the search works
}

}  // namespace
}  // namespace jitstep::jit
