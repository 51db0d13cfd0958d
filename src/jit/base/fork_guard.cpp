#include "jit/base/fork_guard.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

namespace jitstep::jit {
namespace {

// Of each ForkSensitive library.
std::array<std::atomic<bool>, 2> used{}, lost{};

// All live mutexes. Never destroyed, as objects with static lifetime may come and go after it.
struct Registry {
  std::mutex mutex;
  std::vector<ForkSafeMutex*> members;
};

Registry& registry() {
  static Registry& all = *new Registry;
  return all;
}

void before_fork() {
  registry().mutex.lock();
  for (ForkSafeMutex* member : registry().members) member->lock();
}

void after_fork() {
  auto& members = registry().members;
  std::for_each(members.rbegin(), members.rend(), [](ForkSafeMutex* member) { member->unlock(); });
  registry().mutex.unlock();
}

void after_fork_in_child() {
  after_fork();
  for (std::size_t i = 0; i < used.size(); ++i)
    if (used[i]) lost[i] = true;
}

void register_handlers() {
  static const int once = pthread_atfork(before_fork, after_fork, after_fork_in_child);
  (void)once;
}

}  // namespace

ForkSafeMutex::ForkSafeMutex() {
  register_handlers();
  std::lock_guard lock(registry().mutex);
  registry().members.push_back(this);
}

ForkSafeMutex::~ForkSafeMutex() {
  std::lock_guard lock(registry().mutex);
  std::erase(registry().members, this);
}

void note_used(ForkSensitive library) {
  register_handlers();
  used[static_cast<std::size_t>(library)] = true;
}

bool forked_after(ForkSensitive library) { return lost[static_cast<std::size_t>(library)]; }

}  // namespace jitstep::jit
