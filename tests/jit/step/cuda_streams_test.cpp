// The order of steps on several streams, and steps in a graph capture. The tests check the memory that a kernel sees
// when it runs.
#include "jit/step/cuda_steps.h"

namespace jitstep::jit {
namespace {

using namespace testing;

constexpr char kStepCapture[] = "a CUDA graph capture cannot contain this call";

// ---- streams ------------------------------------------------------------------------------------

using CudaStreams = CudaSteps;

TEST_F(CudaStreams, CopiesAndLaunchesGoOnTheCurrentStream) {
  const int side = fake.new_stream();
  hosts[0]->current = side;
  step(*step_of(plan("lamb", true)), 1);
  EXPECT_FALSE(fake.copies.empty());
  for (const auto& [bytes, stream] : fake.copies) EXPECT_EQ(stream, side);
  fake.drain();
  ASSERT_EQ(fake.runs.size(), 5u);
  for (const auto& run : fake.runs) EXPECT_EQ(run.stream, side);
}

TEST_F(CudaStreams, NothingWaitsOnTheSameStream) {
  const auto of = step_of(plan("adamw"));
  for (int t = 1; t <= 5; ++t) step(*of, t);
  EXPECT_TRUE(fake.calls_of("cuStreamWaitEvent").empty());
  EXPECT_EQ(fake.calls_of("cuEventCreate").size(), 1u);
}

// Steps on stream 0, and immediately afterwards on another stream.
std::vector<std::int64_t> steps_seen(FakeDriver& fake, FakeHost& host, Step& of,
                                     const std::function<void(std::int64_t)>& step, bool in_turn) {
  const int side = fake.new_stream();
  step(1);
  fake.drain();
  fake.runs.clear();
  step(2);
  host.current = side;
  step(3);
  fake.drain({in_turn ? 0 : side}, in_turn);
  std::vector<std::int64_t> seen;
  for (const auto& run : fake.runs) seen.push_back(run.garbage ? -1 : run.t);
  EXPECT_EQ(of.size(), 3u);
  return seen;
}

TEST_F(CudaStreams, AStepOnAnotherStreamDoesNotOverwriteTheTablesOfTheLast) {
  for (bool in_turn : {false, true}) {
    fake.clear();
    hosts[0]->current = 0;
    const auto of = step_of(plan("adamw"));
    EXPECT_EQ(steps_seen(
                  fake, *hosts[0], *of, [&](std::int64_t t) { step(*of, t); }, in_turn),
              (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(fake.calls_of("cuStreamWaitEvent").size(), 1u);
  }
}

// Shows that the test above can fail: without the wait, the kernel of step 2 reads the hyperparameters of step 3.
TEST(CudaStreamsWithoutWaiting, OverwriteTheTablesOfTheStepBefore) {
  FakeDriver fake;
  testing::TemporaryFolder folder;
  CudaApi api = FakeDriver::api();
  api.cuStreamWaitEvent = [](void*, void*, unsigned) { return 0; };
  Engine engine(testing::settings_with_cache(folder.path()),
                {.nvrtc = std::make_shared<support::FakeCompiler>(),
                 .driver = std::make_shared<CudaDriver>(api)});
  auto owned = std::make_unique<FakeHost>(fake, 0);
  FakeHost& host = *owned;
  CudaBackend backend(engine, 0, std::move(owned));
  Step of(backend, {{plan("adamw"), tensors(3, 10)}});
  const auto step = [&](std::int64_t t) { of.run(inputs(3), {at_step(t)}); };
  EXPECT_EQ(steps_seen(fake, host, of, step, true), (std::vector<std::int64_t>{3, 3}));
}

TEST_F(CudaStreams, AStreamMayBeDestroyedAfterItsStep) {
  const auto of = step_of(plan("adamw"));
  const int side = fake.new_stream();
  hosts[0]->current = side;
  step(*of, 1);
  fake.destroy_stream(side);
  hosts[0]->current = 0;
  EXPECT_NO_THROW(step(*of, 2));
  fake.drain({0});
  ASSERT_EQ(fake.runs.size(), 2u);
  EXPECT_EQ(fake.runs[0].t, 1);
  EXPECT_EQ(fake.runs[1].t, 2);
}

// The kernels have been launched by then, so step() must not report a failure.
TEST_F(CudaStreams, AFailedEventRecordDoesNotFailTheStepAndIsCaughtUp) {
  const auto of = step_of(plan("adamw"));
  step(*of, 1);
  fake.fail("cuEventRecord", 2, 0, 1);
  EXPECT_NO_THROW(step(*of, 2));
  const int side = fake.new_stream();
  hosts[0]->current = side;
  step(*of, 3);
  fake.drain({side, 0});
  ASSERT_EQ(fake.runs.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_FALSE(fake.runs[i].garbage);
    EXPECT_EQ(fake.runs[i].t, static_cast<long long>(i) + 1);
  }
}

TEST_F(CudaStreams, TheEventIsCreatedBeforeTheFirstLaunch) {
  const auto of = step_of(plan("adamw"));
  fake.fail("cuEventCreate", 2, 0, 1);
  EXPECT_THROW(step(*of, 1), CudaError);
  EXPECT_TRUE(fake.calls_of("cuLaunchKernel").empty());
  EXPECT_NO_THROW(step(*of, 1));
}

TEST_F(CudaStreams, WaitsForAPartlyLaunchedStepToo) {
  const auto of = step_of(plan("lamb", true));
  step(*of, 1);
  fake.drain();
  fake.runs.clear();
  fake.fail("cuLaunchKernel", 701, 2, 1);
  EXPECT_THROW(step(*of, 2), CudaError);
  const int side = fake.new_stream();
  hosts[0]->current = side;
  step(*of, 3);
  fake.drain({side, 0});
  ASSERT_EQ(fake.runs.size(), 7u);
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(fake.runs[i].t, i < 2 ? 2 : 3);
}

TEST_F(CudaStreams, MemoryIsNotReusedWhileAnotherStreamUsesIt) {
  const int side = fake.new_stream();
  auto of = step_of(plan("lamb", true));
  step(*of, 1);
  fake.drain();
  fake.runs.clear();
  hosts[0]->current = side;
  step(*of, 2);
  of.reset();  // its memory was allocated on stream 0
  fake.drain({0, side});
  ASSERT_EQ(fake.runs.size(), 5u);
  for (const auto& run : fake.runs) EXPECT_FALSE(run.garbage);
}

// Shows that the test above can fail.
TEST_F(CudaStreams, MemoryThatIsNotRecordedIsOverwrittenUnderAKernel) {
  const int side = fake.new_stream();
  auto table = fake.allocate(0, sizeof(HyperParams));
  fake.drain();
  Args args{};
  args.hyper_params = static_cast<HyperParams*>(table.get());
  args.item_count = 1;
  args.items = reinterpret_cast<Item*>(table.get());
  const auto kernel = backends[0].load("x", "unit");
  hosts[0]->current = side;
  const auto launches = backends[0].launches(kernel, {"step"}, {.threads = 32});
  launches->launch(0, args);
  table.reset();
  fake.drain({0, side});
  EXPECT_EQ(fake.runs.at(0).t, static_cast<std::int64_t>(0xDDDDDDDDDDDDDDDDull));
}

// ---- graph capture ------------------------------------------------------------------------------

using CudaCapture = CudaSteps;

TEST_F(CudaCapture, AStepThrowsBeforeAnythingIsChanged) {
  const auto of = step_of(plan("lamb", true));
  step(*of, 1);
  for (int status : {1, 2}) {  // active, invalidated
    fake.clear();
    const int live = fake.live_allocations();
    fake.set_capture(0, status);
    EXPECT_NE(error_of([&] { step(*of, 2); }).find(kStepCapture), std::string::npos);
    fake.set_capture(0, 0);
    EXPECT_TRUE(fake.copies.empty());
    EXPECT_TRUE(fake.calls_of("cuLaunchKernel").empty());
    EXPECT_TRUE(fake.calls_of("cuEventRecord").empty());
    EXPECT_EQ(fake.live_allocations(), live);
    EXPECT_EQ(fake.context_depth(), 0u);
  }
  fake.drain();
  fake.clear();
  step(*of, 2);
  fake.drain();
  EXPECT_EQ(fake.runs.back().t, 2);
}

TEST_F(CudaCapture, AStepThatTheDeviceCountsRunsOnTheCapturedStreamAndDoesNotWait) {
  const auto of = step_of(plan("adamw"), 1);
  int64 step_offset = 1;
  HyperParams set = at_step(2);
  set.step_offset = &step_offset;
  of->count_on_device();
  of->run(inputs(1), {set});
  const int side = fake.new_stream();
  hosts[0]->current = side;
  fake.set_capture(side, 1);
  fake.clear();
  of->run(inputs(1), {set});
  for (const char* name : {"cuStreamWaitEvent", "cuEventRecord"})
    EXPECT_TRUE(fake.calls_of(name).empty()) << name;
  const Calls launches = fake.calls_of("cuLaunchKernel");
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0], str_cat("cuLaunchKernel jitstep_apply 1x256 stream ", side));
  EXPECT_EQ(launches[1], str_cat("cuLaunchKernel jitstep_count 1x32 stream ", side));
  EXPECT_EQ(fake.copies.size(), 2u) << "its own tables, though nothing has changed";
}

TEST_F(CudaCapture, AKernelIsNeitherCompiledNorLoaded) {
  fake.set_capture(0, 1);
  fake.clear();
  EXPECT_NE(error_of([&] { step_of(plan("adamw")); }).find(kStepCapture), std::string::npos);
  EXPECT_EQ(engine.statistics().compiled, 0u);
  EXPECT_EQ(fake.loaded_modules(), 0);
  EXPECT_EQ(fake.live_allocations(), 0);
}

TEST_F(CudaCapture, TheStateOfAnotherStreamDoesNotMatter) {
  const auto of = step_of(plan("adamw"));
  fake.set_capture(fake.new_stream(), 1);
  EXPECT_NO_THROW(step(*of, 1));
}

TEST_F(CudaCapture, AFailedCaptureQueryThrows) {
  const auto of = step_of(plan("adamw"));
  fake.fail("cuStreamIsCapturing", 906);  // default stream, during a capture of another stream
  const std::string message = error_of<CudaError>([&] { step(*of, 1); });
  EXPECT_NE(message.find("before or after the capture"), std::string::npos) << message;
  EXPECT_TRUE(fake.calls_of("cuLaunchKernel").empty());
}

}  // namespace
}  // namespace jitstep::jit
