// Ranks as threads of the test, each with its own process group over gloo.
#pragma once

#include <torch/types.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <chrono>
#include <csignal>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace jitstep::tests {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

inline Group group_of(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                      const c10::intrusive_ptr<c10d::Backend>& backend) {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, backend);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  group->setGroupName("ranks");
  return group;
}

inline c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> gloo_options(
    std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->threads = 1;
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return options;
}

inline Group gloo_group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                        std::chrono::milliseconds timeout) {
  return group_of(
      store, rank, size,
      c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, gloo_options(timeout)));
}

/// Runs `work` on so many ranks. Returns the message of each rank's error, "" for none.
inline std::vector<std::string> on_ranks(
    int size, const std::function<void(int rank, const Group& group)>& work,
    std::chrono::milliseconds timeout = std::chrono::seconds(120)) {
  // gloo writes to the socket of a rank that has ended. The signal would end the process before gloo throws.
  std::signal(SIGPIPE, SIG_IGN);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  const auto run = [&](int rank) {
    try {
      work(rank, gloo_group(store, rank, size, timeout));
    } catch (const std::exception& error) {
      errors[static_cast<std::size_t>(rank)] = error.what();
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < size; ++rank) threads.emplace_back(run, rank);
  run(0);
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline std::vector<std::string> no_errors(int size) {
  return std::vector<std::string>(static_cast<std::size_t>(size));
}

}  // namespace jitstep::tests
