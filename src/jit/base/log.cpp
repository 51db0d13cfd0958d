#include "jit/base/log.h"

#include <cstdio>
#include <set>
#include <utility>

#include "jit/base/fork_guard.h"

namespace jitstep::jit {
namespace {

ForkSafeMutex& handler_mutex() {
  static ForkSafeMutex& mutex = *new ForkSafeMutex;
  return mutex;
}

WarningHandler& handler() {
  static WarningHandler& current = *new WarningHandler;
  return current;
}

void to_stderr(const char* prefix, const std::string& message) {
  std::fprintf(stderr, "%s%s\n", prefix, message.c_str());
}

void print_warning(const std::string& message) { to_stderr("jitstep: warning: ", message); }

// The messages of warn_once().
struct Sent {
  ForkSafeMutex mutex;
  std::set<std::string> messages;
};

Sent& sent() {
  static Sent& only = *new Sent;
  return only;
}

// A child that is forked while another thread makes a static variable waits for it forever.
[[maybe_unused]] const bool kMadeAtLoad = (handler_mutex(), sent(), true);

}  // namespace

WarningHandler set_warning_handler(WarningHandler replacement) {
  std::lock_guard lock(handler_mutex());
  return std::exchange(handler(), std::move(replacement));
}

void warn(LogLevel level, const std::string& message) {
  if (level == LogLevel::off) return;
  WarningHandler current;
  {
    std::lock_guard lock(handler_mutex());
    current = handler();
  }
  if (!current) return print_warning(message);
  try {
    current(message);
  } catch (...) {  // the caller may have compiled a kernel, which would be lost
    print_warning(message);
  }
}

void warn_once(LogLevel level, const std::string& message) {
  if (level == LogLevel::off) return;
  {
    std::lock_guard lock(sent().mutex);
    if (!sent().messages.insert(message).second) return;
  }
  warn(level, message);
}

void note(LogLevel level, LogLevel wanted, const std::string& message) {
  if (level >= wanted) to_stderr("jitstep: ", message);
}

}  // namespace jitstep::jit
