// Runs slow tasks, such as compilers, in threads of their own instead of a shared pool.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace jitstep::jit {

/// The processors that this process may use: of a container or a job, not of the machine.
inline int usable_processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// Runs work(0) ... work(count - 1) in as many threads as there are usable processors, including this one. Afterwards it
/// throws the exception of the failed task with the lowest index.
template <class Work>
void in_parallel(std::size_t count, const Work& work) {
  std::vector<std::exception_ptr> failures(count);
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  const std::size_t threads = std::min(count, static_cast<std::size_t>(usable_processors()));
  {
    std::vector<std::jthread> others;
    try {
      while (others.size() + 1 < threads) others.emplace_back(run);
    } catch (const std::system_error&) {
      // The system has no more threads: those that exist run all tasks.
    }
    run();
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace jitstep::jit
