#include "jit/base/interrupt.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "jit/base/parallel.h"
#include "jit/base/process.h"
#include "jit/base/single_flight.h"
#include "jit/fixtures.h"

namespace jitstep::jit {
namespace {

namespace fs = testing::fs;
using Clock = std::chrono::steady_clock;

std::thread::id interrupted_thread;
std::atomic<bool> interrupts = false;

// Interrupts the waits of this thread once, as soon as the file `begun` exists.
std::string begun;
class Interrupt : public ::testing::Test {
 protected:
  Interrupt() {
    interrupted_thread = std::this_thread::get_id();
    interrupts = true;
    begun = "/";
    set_interrupt_check([] {
      return std::this_thread::get_id() == interrupted_thread && fs::exists(begun) &&
             interrupts.exchange(false);
    });
  }
  ~Interrupt() override { set_interrupt_check(nullptr); }
};

TEST_F(Interrupt, EndsAProgramWithItsChildren) {
  const testing::TemporaryFolder folder;
  const std::string mark = folder / "mark";
  begun = folder / "begun";
  const std::string child = "(echo > '" + begun + "'; sleep 3; echo > '" + mark + "')";
  const auto start = Clock::now();
  EXPECT_THROW(run_program({"/bin/sh", "-c", child + " & sleep 60"}, "", own_variables()),
               Interrupted);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(30));
  std::this_thread::sleep_for(std::chrono::seconds(4));
  EXPECT_FALSE(fs::exists(mark)) << "a child of the program lives on";
  EXPECT_EQ(run_program({"/bin/sh", "-c", "exit 3"}, "", {}).status, 3) << "the next one runs";
}

TEST_F(Interrupt, EndsAllTasksOfAThreadThatWaits) {
  std::atomic<int> started = 0;
  const auto start = Clock::now();
  const auto wait = [&](std::size_t) {
    ++started;
    run_program({"/bin/sh", "-c", "sleep 20"}, "", own_variables());
  };
  EXPECT_THROW(in_parallel(2 * static_cast<std::size_t>(usable_processors()), wait), Interrupted);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(18));
  EXPECT_LE(started, usable_processors()) << "tasks have started afterwards";
  EXPECT_FALSE(is_interrupted());
}

TEST_F(Interrupt, EndsTasksOfOtherThreadsAfterThoseOfItsOwn) {
  if (usable_processors() < 2) GTEST_SKIP() << "all tasks run in one thread";
  std::atomic<bool> other_runs = false;
  const auto start = Clock::now();
  const auto wait = [&](std::size_t) {
    if (std::this_thread::get_id() == interrupted_thread) {
      while (!other_runs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    other_runs = true;
    run_program({"/bin/sh", "-c", "sleep 20"}, "", own_variables());
  };
  EXPECT_THROW(in_parallel(2, wait), Interrupted);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(18));
}

TEST_F(Interrupt, EndsInnerTasks) {
  const auto start = Clock::now();
  const auto wait = [](std::size_t) {
    run_program({"/bin/sh", "-c", "sleep 60"}, "", own_variables());
  };
  EXPECT_THROW(in_parallel(2, [&](std::size_t) { in_parallel(2, wait); }), Interrupted);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(30));
}

TEST_F(Interrupt, LeavesAValueToAThreadThatWaitsForIt) {
  SingleFlight<int> values;
  std::promise<void> began, waits;
  bool found_here = false, found_there = false;
  std::thread other([&] {
    began.get_future().wait();
    waits.set_value();
    const auto value = values.get(
        "key", [] { return std::make_shared<const int>(2); }, found_there);
    EXPECT_EQ(*value, 2);
  });
  const auto make = [&]() -> std::shared_ptr<const int> {
    began.set_value();
    waits.get_future().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (is_interrupted()) throw Interrupted();
    return std::make_shared<const int>(1);
  };
  EXPECT_THROW(values.get("key", make, found_here), Interrupted);
  other.join();
  EXPECT_FALSE(found_there) << "it has computed the value";
}

}  // namespace
}  // namespace jitstep::jit
