// Runs slow tasks, such as compilers, in threads of their own instead of a shared pool.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <semaphore>
#include <system_error>
#include <thread>
#include <vector>

#include "jit/base/interrupt.h"

namespace jitstep::jit {

/// The processors that this process may use by its affinity, which a job or a container may limit. Quotas do not count.
inline int usable_processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// Runs work(0) ... work(count - 1) in as many threads as there are usable processors, including this one. Afterwards it
/// throws the exception of the failed task with the lowest index. An interrupted task ends all of them: Interrupted.
template <class Work>
void in_parallel(std::size_t count, const Work& work) {
  std::vector<std::exception_ptr> failures(count);
  std::atomic<std::size_t> next = 0;
  InterruptibleTasks tasks;
  std::counting_semaphore<> ended(0);
  const auto run = [&] {
    const InterruptibleTasks::Member member(tasks);
    for (std::size_t i = next++; i < count && !tasks.is_interrupted(); i = next++) {
      try {
        work(i);
      } catch (const Interrupted&) {
        tasks.interrupt();
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  const std::size_t threads = std::min(count, static_cast<std::size_t>(usable_processors()));
  {
    std::vector<std::jthread> others;
    try {
      while (others.size() + 1 < threads)
        others.emplace_back([&] {
          run();
          ended.release();
        });
    } catch (const std::system_error&) {
      // The system has no more threads: those that exist run all tasks.
    }
    run();
    // The host's check may be for this thread only.
    for (std::size_t i = 0; i < others.size(); ++i)
      while (!ended.try_acquire_for(std::chrono::milliseconds(10)))
        if (is_interrupted()) tasks.interrupt();
  }
  if (tasks.is_interrupted()) throw Interrupted();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace jitstep::jit
