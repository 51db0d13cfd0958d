#include "support/child.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <stdexcept>

namespace jitstep::testing {
namespace {

constexpr int kRefused = 77;

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::string outcome(const std::function<std::string()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return std::string("threw: ") + error.what();
  }
}

// A child, and the memory that it shares with this process. Writing its result there needs no system call, which may
// fail.
struct Child {
  pid_t id;
  char* words;
};

constexpr std::size_t kWords = 1 << 16;

Child start(const std::function<std::string()>& work) {
  void* const shared =
      ::mmap(nullptr, kWords, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::runtime_error("no shared memory");
  const Child child{::fork(), static_cast<char*>(shared)};
  if (child.id == 0) {
    ::alarm(120);
    const std::string reports = outcome(work);
    reports.copy(child.words, kWords - 1);
    ::_exit(0);
  }
  return child;
}

std::string finish(const Child& child) {
  const int status = wait_for(child.id);
  const std::string reports = child.words;
  ::munmap(child.words, kWords);
  if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
  return status == 0 ? reports : "ended with status " + std::to_string(status);
}

sock_filter statement(std::uint16_t code, std::uint32_t k) { return {code, 0, 0, k}; }

void write_line(const char* file, const std::string& line) { std::ofstream(file) << line; }

// Maps the same user inside, so that owner checks give the same results as outside.
bool enter_user_namespace() {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  const auto line = [](unsigned id) {
    return std::to_string(id) + " " + std::to_string(id) + " 1";
  };
  write_line("/proc/self/setgroups", "deny");
  write_line("/proc/self/uid_map", line(user));
  write_line("/proc/self/gid_map", line(group));
  return ::geteuid() == user;
}

// Whether the system call that a traced child enters is one of `calls`. It stays as it is when the child leaves it.
void note_call(pid_t child, const std::vector<long>& calls, bool& is_one) {
  __ptrace_syscall_info info{};
  ::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info);
  if (info.op != PTRACE_SYSCALL_INFO_ENTRY) return;
  is_one = std::find(calls.begin(), calls.end(), static_cast<long>(info.entry.nr)) != calls.end();
}

}  // namespace

std::string in_child(const std::function<std::string()>& work) {
  return in_children(1, [&](int) { return work(); })[0];
}

bool child_says(const std::function<bool()>& work) {
  const std::string yes = "yes";
  return in_child([&] { return work() ? yes : "no"; }) == yes;
}

std::vector<std::string> in_children(int count, const std::function<std::string(int)>& work) {
  std::vector<Child> children;
  for (int i = 0; i < count; ++i) children.push_back(start([&] { return work(i); }));
  std::vector<std::string> reports;
  for (const Child& child : children) reports.push_back(finish(child));
  return reports;
}

bool fail_system_calls(const std::vector<long>& numbers, int error) {
  const std::uint32_t verdict =
      error == 0 ? SECCOMP_RET_KILL_PROCESS
                 : SECCOMP_RET_ERRNO | (static_cast<std::uint32_t>(error) & SECCOMP_RET_DATA);
  std::vector<sock_filter> filter = {
      statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const long number : numbers) {
    filter.push_back({BPF_JMP | BPF_JEQ | BPF_K, 0, 1, static_cast<std::uint32_t>(number)});
    filter.push_back(statement(BPF_RET | BPF_K, verdict));
  }
  filter.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool enter_mount_namespace() {
  const bool entered =
      ::geteuid() == 0 && ::unshare(CLONE_NEWNS) == 0 ? true : enter_user_namespace();
  return entered && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

std::string on_a_small_disk(const std::string& folder, int kib,
                            const std::function<std::string()>& work) {
  return in_child([&]() -> std::string {
    const std::string options = "mode=700,size=" + std::to_string(kib) + "k";
    const bool mounted = enter_mount_namespace() &&
                         ::mount("tmpfs", folder.c_str(), "tmpfs", 0, options.c_str()) == 0;
    return mounted ? work() : kNotAllowed;
  });
}

Traced kill_at_stop(int stop, const std::function<void()>& work, const std::vector<long>& calls) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(kRefused);
    ::raise(SIGSTOP);
    work();
    ::_exit(0);
  }
  int status = wait_for(child);
  if (!WIFSTOPPED(status)) return Traced::not_allowed;
  // Without TRACEEXEC, a SIGTRAP after the execution of a program would end it.
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr,
           PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC);
  int seen = 0, signal = 0;
  bool counts = calls.empty();
  while (::ptrace(PTRACE_SYSCALL, child, nullptr, signal) == 0) {
    status = wait_for(child);
    if (!WIFSTOPPED(status)) return WIFEXITED(status) ? Traced::finished : Traced::killed;
    const bool system_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
    const bool event = status >> 16 != 0;
    signal = system_call || event ? 0 : WSTOPSIG(status);  // delivered when the child continues
    if (system_call && !calls.empty()) note_call(child, calls, counts);
    if (system_call && counts && ++seen == stop) break;
  }
  ::kill(child, SIGKILL);
  wait_for(child);
  return Traced::killed;
}

}  // namespace jitstep::testing
