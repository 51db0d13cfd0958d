#include "jit/base/lock_free_static.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace jitstep::jit {
namespace {

std::atomic<int> calls = 0;

std::unique_ptr<const int> counted() { return std::make_unique<const int>(++calls); }

TEST(LockFreeStatic, IsOneObjectForAllThreads) {
  std::vector<const int*> found(8);
  std::vector<std::thread> threads;
  for (const int*& one : found)
    threads.emplace_back([&one] { one = &lock_free_static<counted>(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set(found.begin(), found.end()).size(), 1u);
  const int before = calls;
  EXPECT_GE(before, 1);
  EXPECT_EQ(&lock_free_static<counted>(), found[0]);
  EXPECT_EQ(calls, before) << "later calls do not make it again";
}

}  // namespace
}  // namespace jitstep::jit
