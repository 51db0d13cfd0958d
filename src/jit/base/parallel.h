// Slow work of several threads at once, such as waiting for compilers: these belong to nobody's pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace jitstep::jit {

/// Runs work(0) ... work(count - 1), in as many threads as there are processors, this one among them. When all
/// are done it throws what the first of those that failed threw.
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
      // No more threads are to be had; those that there are do it all.
    }
    run();
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace jitstep::jit
