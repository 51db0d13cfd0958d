#include "jit/base/fork_guard.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <vector>

namespace jitstep::jit {
namespace {

// Indexed by ForkSensitive.
std::array<std::atomic<bool>, 2> used{}, lost{};
std::atomic<bool> threads_at_fork = false, threads_lost = false;

// The folder has one subfolder per thread. A folder without subfolders has two links.
bool has_threads() {
  struct stat tasks;
  return stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink > 3;
}

// All live mutexes and sockets. Never destroyed, because objects with static lifetime may be destroyed after it.
struct Registry {
  std::mutex mutex;
  std::vector<ForkSafeMutex*> members;
  std::vector<FileHandle*> sockets;
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

// Sockets are on the stacks of the parent's other threads. The child may reuse that memory, so it clears the list.
void close_sockets() {
  for (FileHandle* socket : registry().sockets) socket->reset();
  registry().sockets.clear();
}

void after_fork_in_child() {
  close_sockets();
  after_fork();
  for (std::size_t i = 0; i < used.size(); ++i)
    if (used[i]) lost[i] = true;
  if (threads_at_fork) threads_lost = true;
}

void register_handlers() {
  static const int once = pthread_atfork(before_fork, after_fork, after_fork_in_child);
  (void)once;
}

// Registers when the library is loaded, because a fork may lose threads before the first call.
[[maybe_unused]] const bool kWatchesForks = (register_handlers(), true);

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

// The lock prevents a fork between making the socket and registering it.
ForkClosedSocket::ForkClosedSocket() {
  register_handlers();
  std::lock_guard lock(registry().mutex);
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  here_.reset(ends[0]);
  other_.reset(ends[1]);
  registry().sockets.push_back(&here_);
}

ForkClosedSocket::~ForkClosedSocket() {
  std::lock_guard lock(registry().mutex);
  std::erase(registry().sockets, &here_);
  here_.reset();
}

void note_used(ForkSensitive library) {
  register_handlers();
  used[static_cast<std::size_t>(library)] = true;
}

bool forked_after(ForkSensitive library) { return lost[static_cast<std::size_t>(library)]; }

bool forked_from_threads() { return threads_lost; }

}  // namespace jitstep::jit
