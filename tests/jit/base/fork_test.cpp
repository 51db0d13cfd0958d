// Children, made by fork(), of a process that has used the library.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "jit/engine/cuda_driver.h"
#include "jit/engine/engine_parts.h"
#include "jit/engine/module.h"
#include "jit/step/cuda_steps.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/state_storage.h"
#include "support/child.h"

namespace jitstep::jit {
namespace {

using namespace testing;
using jitstep::testing::child_says;

// A sanitizer's allocator stays locked in a child if another thread of the parent holds its lock during fork().
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHasSanitizer = true;
#else
constexpr bool kHasSanitizer = false;
#endif

// fork() of a large process takes long. Registered before the library's handlers, so that it runs after them.
std::atomic<bool> fork_is_slow = false, is_forking = false;

void delay_fork() {
  if (!fork_is_slow) return;
  is_forking = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

[[gnu::constructor(101)]] void register_delay() { pthread_atfork(delay_fork, nullptr, nullptr); }

template <class Call>
bool is_refused(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(error.what()).find("contexts do not survive fork()") != std::string::npos;
  }
  return false;
}

class ForkedSteps : public CudaSteps {
 protected:
  // One step of AdamW on the host. The parameter has three elements that are 1, with gradient 1.
  static float stepped_on_host(Engine& of) {
    CpuBackend cpu(of, [](std::int64_t n, std::int64_t, const auto& body) { body(0, n); });
    float p[3] = {1, 1, 1}, g[3] = {1, 1, 1}, slots[2][3] = {};
    auto tensor = tensors(1, 3);
    tensor[0].p = p;
    for (int i : {0, 1}) tensor[0].slots[i].codes = slots[i];
    const OptionValues values("adamw");
    const Plan adamw = resolve(values);
    Step(cpu, {{adamw, tensor}}).run({{.g = g}}, {adamw.at_step(values, 1)});
    return p[2];
  }
};

TEST_F(ForkedSteps, CudaThrowsInAChildWithoutADriverCallIfTheParentUsedIt) {
  auto of = step_of(plan("adamw"));
  step(*of, 1);
  CudaDriver& driver = driver_of(engine);
  void* const context = driver.primary_context(0);
  auto module = load_cuda_module(support::fake_cubin(90), "unit", driver, 0);
  const CudaEntry entry = module->cuda_entry("step");
  void* const event = driver.create_event(context);
  EXPECT_TRUE(child_says([&] {
    fake.clear();
    const Args args{};
    const bool refused = is_refused([&] { step(*of, 2); }) &&                         //
                         is_refused([&] { step_of(plan("lamb")); }) &&                //
                         is_refused([&] { driver.device_count(); }) &&                //
                         is_refused([&] { driver.device(0); }) &&                     //
                         is_refused([&] { driver.primary_context(1); }) &&            //
                         is_refused([&] { entry.launch(nullptr, 1, 32, &args); }) &&  //
                         is_refused([&] { driver.wait_event(context, nullptr, event); }) &&
                         is_refused([&] { CudaDriver another(FakeDriver::api()); });
    of.reset();
    module.reset();
    driver.destroy_event(context, event);
    return refused && fake.calls.empty();
  }));
  EXPECT_NO_THROW(step(*of, 2)) << "the parent continues";
  driver.destroy_event(context, event);
}

TEST_F(ForkedSteps, TheCpuStillStepsAndCompilesInSuchAChild) {
  step(*step_of(plan("adamw")), 1);
  const float expected = stepped_on_host(engine);
  EXPECT_LT(expected, 1);
  EXPECT_TRUE(child_says([&] {
    testing::TemporaryFolder empty;
    Engine fresh(testing::settings_with_cache(empty.path()));
    return stepped_on_host(engine) == expected && stepped_on_host(fresh) == expected &&
           fresh.statistics().compiled == 1;
  }));
}

// Waits for its call to end, as a pool's threads do.
class WaitingThread {
 public:
  ~WaitingThread() { done_ = true; }

 private:
  std::atomic<bool> done_{false};
  std::jthread thread_{[this] {
    while (!done_) std::this_thread::yield();
  }};
};

TEST_F(ForkedSteps, TheCpuStepsInOneThreadIfTheParentHadSeveral) {
  int calls = 0;
  CpuBackend cpu(engine, [&](std::int64_t n, std::int64_t, const auto& body) {
    ++calls;
    body(0, n);
  });
  const OptionValues values("sgd");
  const Plan sgd = resolve(values);
  std::vector<float> p(100'000, 1), g(100'000, 1);
  StateStorage state(cpu, sgd, values, {100'000});
  Step one(cpu, {{sgd, {state.tensor(p.data())}}});
  one.run({{.g = g.data()}}, {sgd.at_step(values, 1)});
  EXPECT_EQ(calls, 1);
  const WaitingThread other;
  EXPECT_TRUE(child_says([&] {
    one.run({{.g = g.data()}}, {sgd.at_step(values, 2)});
    return calls == 1 && p.back() < 1;
  }));
}

TEST(Forked, ChildrenCompileWhileOtherThreadsOfTheParentDo) {
  if (kHasSanitizer) GTEST_SKIP() << "its allocator may be locked in the child";
  testing::TemporaryFolder folder;
  Engine engine(testing::settings_with_cache(folder.path()));
  std::atomic<bool> done{false};
  std::atomic<int> compiled{0};
  std::vector<std::thread> busy;
  for (int thread = 0; thread < 3; ++thread)
    busy.emplace_back([&, thread] {
      for (int i = 0; !done; ++i) {
        engine.kernel(adding_unit(str_cat(thread, " + ", i)), "unit", Target::cpu());
        ++compiled;
      }
    });
  while (compiled < 1) std::this_thread::yield();
  int good = 0;
  constexpr int kChildren = 8;
  for (int child = 0; child < kChildren; ++child)
    good += child_says([&] {
      // A compile that may be under way in a thread that does not exist in this child, and one that only this child
      // starts.
      const auto shared = adding_unit(str_cat("0 + ", compiled / 3));
      engine.kernel(shared, "unit", Target::cpu());
      const auto own = engine.kernel(adding_unit(str_cat(1000 + child)), "unit", Target::cpu());
      return add_to(*own, 1) == static_cast<float>(1001 + child);
    });
  done = true;
  for (auto& thread : busy) thread.join();
  EXPECT_EQ(good, kChildren);
}

// Each test is a process of its own under CTest, so that nothing has made the catalog before.
TEST(Forked, ChildrenUseACatalogThatAnotherThreadOfTheParentMakes) {
  if (kHasSanitizer) GTEST_SKIP() << "its allocator may be locked in the child";
  default_engine();
  fork_is_slow = true;
  bool good = false;
  std::thread forking(
      [&] { good = child_says([] { return default_catalog().rule("sgd").name == "sgd"; }); });
  while (!is_forking) std::this_thread::yield();
  default_catalog();
  forking.join();
  fork_is_slow = false;
  EXPECT_TRUE(good);
}

TEST(Forked, ChildrenLoadRulesWhileTheParentDoes) {
  if (kHasSanitizer) GTEST_SKIP() << "its allocator may be locked in the child";
  TemporaryFolder folder;
  TemplateStore store;
  Catalog catalog(store);
  const std::string text = *store.find("rules/sgd.cuh");
  const auto load = [&](const std::string& name) {
    std::string own = text;
    own.replace(own.find("rules::sgd"), 10, "rules::" + name);
    const std::string path = folder / (name + ".cuh");
    write_file(path, own);
    return catalog.load_rule(path).name == name;
  };
  std::atomic<bool> done = false;
  std::thread busy([&] {
    for (int i = 0; !done; ++i) load(jit::str_cat("parents", i));
  });
  int good = 0;
  for (int child = 0; child < 20; ++child)
    good += child_says([&] { return load(jit::str_cat("childs", child)); });
  done = true;
  busy.join();
  EXPECT_EQ(good, 20);
}

}  // namespace
}  // namespace jitstep::jit
