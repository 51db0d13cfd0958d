// Which threads of this process did some work, measured by their CPU time.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>

namespace jitstep::tests {

/// CPU time in seconds of each thread of this process, by thread id.
inline std::map<int, double> seconds_by_thread() {
  std::map<int, double> seconds;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const int id = std::stoi(task.path().filename());
    timespec time{};
    // The clock id that pthread_getcpuclockid() computes. That function takes pthread_t only, and these are thread ids.
    if (clock_gettime((~static_cast<clockid_t>(id) << 3) | 6, &time) == 0)
      seconds[id] = static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  return seconds;
}

/// Counts threads that ran for at least a tenth of the time of the busiest one. `work` should take milliseconds. The
/// pause lets a pool that waits in a busy loop fall asleep first.
inline int threads_that_work(const std::function<void()>& work) {
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto before = seconds_by_thread();
  work();
  const auto after = seconds_by_thread();
  std::vector<double> ran;
  for (const auto& [id, seconds] : after) {
    const auto found = before.find(id);
    ran.push_back(seconds - (found == before.end() ? 0 : found->second));
  }
  const double most = *std::max_element(ran.begin(), ran.end());
  return static_cast<int>(
      std::count_if(ran.begin(), ran.end(), [&](double one) { return one > most / 10; }));
}

}  // namespace jitstep::tests
