#include "jit/base/fork_guard.h"

#include <pthread.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

namespace jitstep::jit {
namespace {

// Of each ForkSensitive library.
std::array<std::atomic<bool>, 2> used{}, lost{};
std::atomic<bool> threads_at_fork = false, threads_lost = false;

// The folder has a subfolder for each thread; a folder of none has two links.
bool has_threads() {
  struct stat tasks;
  return stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink > 3;
}

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
  threads_at_fork = has_threads();
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
  if (threads_at_fork) threads_lost = true;
}

void register_handlers() {
  static const int once = pthread_atfork(before_fork, after_fork, after_fork_in_child);
  (void)once;
}

// When the library is loaded: threads may be lost in a fork before anything else of it is used.
[[maybe_unused]] const bool watches_forks = (register_handlers(), true);

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

bool forked_from_threads() { return threads_lost; }

}  // namespace jitstep::jit
