#include "jit/base/spawn.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "jit/base/text.h"
#include "jitstep/jit/error.h"

// glibc's other name of clone(). ThreadSanitizer replaces clone(). It takes the child for a fork, and ignores
// everything that the child does from then on. But this child runs in the memory of its parent, so that it would ignore
// the parent.
// NOLINTNEXTLINE(readability-identifier-naming,bugprone-reserved-identifier)
extern "C" int __clone(int (*body)(void*), void* stack, int flags, void* argument, ...);

namespace jitstep::jit {
namespace {

// Arguments of the child process, before it executes the program.
struct Request {
  char* const* arguments;
  char* const* environment;
  Streams streams;
  pid_t parent;
  ChildOptions options;
  int failure = 0;  // errno
};

// The host's signal handlers must not run in the child. The program must receive SIGPIPE, SIGCHLD and SIGTERM even if
// the host ignores them. Uses system calls directly, here and below: sanitizers have tables of handlers and files in
// the memory that both processes share, and compute-sanitizer and ncu replace execve() by a function that allocates.
__attribute__((no_sanitize_address, no_sanitize_thread)) void reset_signals() {
  constexpr std::size_t kMaskBytes = 8;
  const unsigned long by_default[4] = {};  // the kernel's struct sigaction, with the handler first
  for (int signal = 1; signal < NSIG; ++signal) {
    unsigned long now[4] = {};
    ::syscall(SYS_rt_sigaction, signal, nullptr, now, kMaskBytes);
    const bool ignored = now[0] == reinterpret_cast<unsigned long>(SIG_IGN);
    const bool needed = signal == SIGPIPE || signal == SIGCHLD || signal == SIGTERM;
    if (!ignored || needed) ::syscall(SYS_rt_sigaction, signal, by_default, nullptr, kMaskBytes);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Runs in the memory of the waiting caller, so it may only make system calls.
__attribute__((no_sanitize_address, no_sanitize_thread)) int become_program(void* of) {
  Request& request = *static_cast<Request*>(of);
  const auto& [in, out, error] = request.streams;
  const auto& [group, dies_with_thread] = request.options;
  const bool ready = ::setpgid(0, group) == 0 &&
                     (!dies_with_thread || ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0) &&
                     ::syscall(SYS_dup3, in, 0, 0) >= 0 && ::syscall(SYS_dup3, out, 1, 0) >= 0 &&
                     ::syscall(SYS_dup3, error, 2, 0) >= 0;
  // If the parent ended before prctl(), the kernel does not send the signal.
  if (ready && ::getppid() == request.parent) {
    reset_signals();
    ::syscall(SYS_execve, request.arguments[0], request.arguments, request.environment);
  }
  request.failure = errno;
  ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  result.reserve(words.size() + 1);
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

// Like posix_spawn(), which does not support PR_SET_PDEATHSIG: vfork semantics, without a copy of the host's memory.
pid_t start(Request& request) {
  constexpr std::size_t kStack = 1 << 16;
  std::vector<char> stack(kStack);
  const auto top = reinterpret_cast<std::uintptr_t>(stack.data() + kStack) & ~std::uintptr_t{15};
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t child = ::__clone(become_program, reinterpret_cast<void*>(top),
                                CLONE_VM | CLONE_VFORK | SIGCHLD, &request);
  if (child < 0) request.failure = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return child;
}

}  // namespace

pid_t spawn(std::vector<std::string> arguments, const Variables& environment,
            const Streams& streams, const ChildOptions& options) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(str_cat(name, "=", value));
  const std::vector<char*> words = pointers(arguments), entries = pointers(variables);
  Request request{words.data(), entries.data(), streams, ::getpid(), options};
  const pid_t child = start(request);
  if (!request.failure) return child;
  if (child > 0) wait_for(child);
  throw Error(str_cat("cannot run ", arguments[0], ": ", std::strerror(request.failure)));
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return status;
}

}  // namespace jitstep::jit
