#include "jit/base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "jit/base/file_io.h"
#include "jit/base/fork_guard.h"
#include "jit/base/interrupt.h"
#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

// Duplicates the descriptor above 2, because the host may have closed standard streams.
FileHandle high(const FileHandle& file) {
  return FileHandle(file ? ::fcntl(file.get(), F_DUPFD_CLOEXEC, 3) : -1);
}

FileHandle scratch_file(std::string_view content) {
  FileHandle file = high(memory_file("jitstep", bytes_of(content), false));
  if (!file)
    throw Error(
        str_cat("cannot create a file in memory for the compiler: ", failure_advice(errno), "."));
  return file;
}

struct Pipe {
  FileHandle read, write;
};

Pipe make_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error(str_cat("cannot create a pipe to a program: ", std::strerror(errno)));
  const FileHandle read(ends[0]), write(ends[1]);
  Pipe pipe{high(read), high(write)};
  if (!pipe.read || !pipe.write)
    throw Error(str_cat("cannot create a pipe to a program: ", std::strerror(errno)));
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

// The kernel kills the program that this process started when this process ends, but not the program's own children,
// such as cc1plus. A shell in their process group therefore waits for a line from this process. If this process ends
// without one, the shell kills the whole group.
class Watchdog {
 public:
  Watchdog() {
    const FileHandle there = high(here_.take_other());
    const FileHandle nowhere = high(FileHandle(::open("/dev/null", O_RDWR | O_CLOEXEC)));
    if (!there || !nowhere) return;
    try {
      shell_ = spawn({"/bin/sh", "-c", "read word && exit; kill -KILL 0"}, {},
                     {there.get(), nowhere.get(), nowhere.get()}, {.dies_with_thread = false});
    } catch (const Error&) {  // no shell here: the kernel still kills the program itself
    }
  }
  ~Watchdog() {
    if (shell_ <= 0) return;
    ::send(here_.get(), "\n", 1, MSG_NOSIGNAL);
    wait_for(shell_);
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // The process group that it kills. 0 if there is no shell.
  pid_t group() const { return shell_; }

 private:
  ForkClosedSocket here_;
  pid_t shell_ = 0;
};

// Stores the first and the last bytes of an output.
class Ends {
 public:
  explicit Ends(std::size_t most) : most_(most) {}

  void add(std::string_view piece) {
    const std::size_t room = std::min(most_ - first_.size(), piece.size());
    first_ += piece.substr(0, room);
    last_ += piece.substr(room);
    if (last_.size() / 2 > most_) drop();
  }
  std::string text() {
    drop();
    return dropped_ == 0
               ? first_ + last_
               : jit::str_cat(first_, "\n[... ", dropped_, " bytes omitted ...]\n", last_);
  }

 private:
  void drop() {
    const std::size_t more = last_.size() - std::min(last_.size(), most_);
    last_.erase(0, more);
    dropped_ += more;
  }

  std::size_t most_, dropped_ = 0;
  std::string first_, last_;
};

// Reads the output of a program.
class Reader {
 public:
  Reader(FileHandle pipe, std::size_t most) : pipe_(std::move(pipe)), ends_(most) {}

  // Waits at most this long for output. Returns false once all writers have closed the pipe.
  bool read_within(std::chrono::milliseconds time) {
    pollfd ready{pipe_.get(), POLLIN, 0};
    ::poll(&ready, 1, static_cast<int>(time.count()));
    const ssize_t got = ::read(pipe_.get(), buffer_.data(), buffer_.size());
    if (got > 0) ends_.add({buffer_.data(), static_cast<std::size_t>(got)});
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
  }
  // All output until the program's end. Its own children may still write after that, so this stops at the pipe's
  // capacity.
  std::string rest() {
    const int room = ::fcntl(pipe_.get(), F_GETPIPE_SZ);
    for (int read = 0; read < room && read_within({}); read += static_cast<int>(buffer_.size())) {
    }
    return ends_.text();
  }

 private:
  FileHandle pipe_;
  Ends ends_;
  std::array<char, 1 << 16> buffer_;
};

using Clock = std::chrono::steady_clock;

bool ended(pid_t child, int& status) {
  const pid_t found = ::waitpid(child, &status, WNOHANG);
  if (found < 0 && errno != EINTR) status = -1;  // another waiter reaped the child
  return found > 0 || status == -1;
}

// Waits for the child. Kills its group after the time limit, and if the wait is interrupted. Sleeps between polls,
// briefly at first, if there is no output: no function that waits for a child with a timeout works on every Linux
// version and leaves the host's signals alone.
Finished finish(pid_t child, pid_t group, Reader& reader, std::chrono::seconds limit) {
  constexpr std::chrono::milliseconds kShortest{1}, kLongest{10};
  constexpr std::chrono::hours kNoLimit{24 * 365};  // the sum of a much larger one would overflow
  const bool limited = limit.count() != 0 && limit < kNoLimit;
  const auto end = limited ? Clock::now() + limit : Clock::time_point::max();
  Finished finished;
  int status = 0;
  bool open = true, killed = false, interrupted = false;
  for (auto nap = kShortest; !ended(child, status); nap = std::min(2 * nap, kLongest)) {
    if (!killed) {
      interrupted = is_interrupted();
      finished.stopped = Clock::now() >= end;
      killed = interrupted || finished.stopped;
      if (killed) ::kill(-group, SIGKILL);
    }
    if (!open) {
      std::this_thread::sleep_for(nap);
    } else if (open = reader.read_within(nap); !open) {
      nap = kShortest;
    }
  }
  if (interrupted) throw Interrupted();
  finished.output = reader.rest();
  finished.status = status < 0            ? -1
                    : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                          : WEXITSTATUS(status);
  return finished;
}

}  // namespace

Variables own_variables(const Variables& changes) {
  Variables variables;
  // After clearenv(), environ is null.
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
                     const Variables& environment, const Limits& limits) {
  const FileHandle in = scratch_file(input);  // not a pipe, because writing to one could block
  Pipe out = make_pipe();
  const Watchdog watchdog;
  const pid_t child = spawn(arguments, environment, {in.get(), out.write.get(), out.write.get()},
                            {.group = watchdog.group()});
  out.write.reset();
  Reader reader(std::move(out.read), limits.output_ends);
  return finish(child, watchdog.group() ? watchdog.group() : child, reader, limits.time);
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
    const std::string_view folder = rest.substr(0, end);
    const std::string file = str_cat(folder, "/", name);
    if (folder.starts_with('/') && executable(file)) return file;
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  return {};
}

}  // namespace jitstep::jit
