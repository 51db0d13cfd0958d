#include "jit/base/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "jit/base/file_io.h"
#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

// posix_spawn's two parameter objects, freed on every way out.
struct SpawnSetup {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

  SpawnSetup() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    // A host that blocks or ignores signals must not make the child deaf.
    sigset_t none, reset;
    sigemptyset(&none);
    sigemptyset(&reset);
    for (int signal : {SIGPIPE, SIGCHLD, SIGTERM}) sigaddset(&reset, signal);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &reset);
    // A group of its own: what it starts, such as an assembler, can be killed with it.
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;
};

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  result.reserve(words.size() + 1);
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

// A copy above the standard three, which the host may have closed.
FileHandle scratch_file(std::string_view content) {
  const FileHandle file = memory_file("jitstep", bytes_of(content), false);
  FileHandle high(file ? ::fcntl(file.get(), F_DUPFD_CLOEXEC, 3) : -1);
  if (!high) throw Error(text("cannot make a file in memory: ", std::strerror(errno)));
  return high;
}

using Clock = std::chrono::steady_clock;

// Waits until the child has ended or `end` is past: then false. Naps, short at first, as no way to
// wait for a child with a limit works on every kernel and leaves the host's signals alone.
bool wait_until(Clock::time_point end, pid_t child, int& status) {
  constexpr std::chrono::milliseconds kLongest{10};
  for (auto nap = std::chrono::milliseconds(1); Clock::now() < end;
       nap = std::min(2 * nap, kLongest)) {
    if (const pid_t ended = ::waitpid(child, &status, WNOHANG); ended != 0) {
      if (ended < 0) status = -1;  // somebody else reaped it
      return true;
    }
    std::this_thread::sleep_for(nap);
  }
  return false;
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return status;
}

// How the child ended; it is killed with its group once the limit is past.
Finished finish(pid_t child, std::chrono::seconds limit) {
  Finished finished;
  int status = 0;
  if (limit.count() == 0) {
    status = wait_for(child);
  } else if (!wait_until(Clock::now() + limit, child, status)) {
    ::kill(-child, SIGKILL);
    finished.stopped = true;
    status = wait_for(child);
  }
  finished.status = status < 0            ? -1
                    : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                          : WEXITSTATUS(status);
  return finished;
}

}  // namespace

Variables own_variables(const Variables& changes) {
  Variables variables;
  // After clearenv() there is no list at all.
  for (char** variable = environ; variable && *variable; ++variable) {
    const std::string_view entry = *variable;
    const std::size_t equals = std::min(entry.find('='), entry.size() - 1);
    const std::string_view name = entry.substr(0, equals);
    const bool changed = std::any_of(changes.begin(), changes.end(),
                                     [&](const auto& change) { return change.first == name; });
    if (!changed) variables.emplace_back(name, entry.substr(equals + 1));
  }
  for (const auto& change : changes) {
    if (!change.second.empty()) variables.push_back(change);
  }
  return variables;
}

Finished run_program(const std::vector<std::string>& arguments, std::string_view input,
                     const Variables& environment, std::chrono::seconds limit) {
  // Files in memory instead of pipes: nothing can block, however much is written.
  const FileHandle in = scratch_file(input), out = scratch_file({});
  SpawnSetup setup;
  posix_spawn_file_actions_adddup2(&setup.actions, in.get(), 0);
  posix_spawn_file_actions_adddup2(&setup.actions, out.get(), 1);
  posix_spawn_file_actions_adddup2(&setup.actions, out.get(), 2);
  std::vector<std::string> words = arguments, variables;
  for (const auto& [name, value] : environment) variables.push_back(text(name, "=", value));
  pid_t child = 0;
  const int failure = ::posix_spawn(&child, words[0].c_str(), &setup.actions, &setup.attributes,
                                    pointers(words).data(), pointers(variables).data());
  if (failure) throw Error(text("cannot run ", words[0], ": ", std::strerror(failure)));
  Finished finished = finish(child, limit);
  if (const auto bytes = read_all(out.get())) finished.output = text_of(*bytes);
  return finished;
}

std::string find_program(const std::string& name, const std::string& path) {
  const auto executable = [](const std::string& file) {
    struct stat status {};
    return ::stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
           ::access(file.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) return executable(name) ? name : "";
  std::string_view rest = path;
  while (!rest.empty()) {
    const std::size_t end = rest.find(':');
    const std::string file = text(rest.substr(0, end), "/", name);
    if (file[0] == '/' && file[1] != '/' && executable(file)) return file;
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  return {};
}

}  // namespace jitstep::jit
