// A progress line on a terminal. Prints nothing if standard error is not a terminal.
#pragma once

#include <jit/base/text.h>
#include <unistd.h>

#include <iostream>
#include <mutex>
#include <string>

namespace jitstep::tool {

/// Thread-safe. The destructor erases the line.
class ProgressLine {
 public:
  ProgressLine() = default;
  ~ProgressLine() { print(""); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Replaces the line by "[done + 1/all] what".
  void operator()(std::size_t done, std::size_t all, const std::string& what) const {
    print(jit::str_cat("[", done + 1, "/", all, "] ", what));
  }

 private:
  void print(const std::string& line) const {
    const std::lock_guard lock(mutex_);
    if (shown_) std::cerr << "\r\033[K" << line << std::flush;
  }
  bool shown_ = ::isatty(STDERR_FILENO) == 1;
  mutable std::mutex mutex_;
};

}  // namespace jitstep::tool
