// Runs slow tasks, such as compilers, in threads of their own instead of a shared pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace jitstep::jit {

/// Runs work(0) ... work(count - 1) in as many threads as there are processors, including this one. Afterwards it
/// throws the exception of the failed task with the lowest index.
template <class Work>
void in_parallel(std::size_t count, const Work& work) {
  std::vector<std::exception_ptr> failures(count);
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) try {
        work(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
  };
  const std::size_t threads = std::min<std::size_t>(count, std::thread::hardware_concurrency());
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
