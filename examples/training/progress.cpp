#include "progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace training {
namespace {

constexpr double kTerminalInterval = 0.1;  // seconds between two prints
constexpr double kLogInterval = 5;

}  // namespace

Progress::Progress(std::string name, std::int64_t total_steps)
    : name_(std::move(name)),
      total_steps_(total_steps),
      terminal_(isatty(STDOUT_FILENO) == 1),
      start_(std::chrono::steady_clock::now()) {}

double Progress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Progress::update(std::int64_t step, double loss) {
  step_ = step;
  loss_ = step == 1 ? loss : 0.95 * loss_ + 0.05 * loss;
  if (seconds() < next_print_) return;
  next_print_ = seconds() + (terminal_ ? kTerminalInterval : kLogInterval);
  print(line(), false);
}

void Progress::finish(double accuracy) {
  char text[80];
  std::snprintf(text, sizeof text, "  test accuracy %.2f %%, %.1f s", 100 * accuracy, seconds());
  print(line() + text, true);
}

std::string Progress::line() const {
  char text[160];
  std::snprintf(text, sizeof text, "%-14s %3d %%  step %lld/%lld  loss %.4f  %5.1f steps/s",
                name_.c_str(), static_cast<int>(100 * step_ / total_steps_),
                static_cast<long long>(step_), static_cast<long long>(total_steps_), loss_,
                static_cast<double>(step_) / seconds());
  return text;
}

void Progress::print(const std::string& text, bool is_last) {
  if (terminal_) {
    // Carriage return, the line, and "erase to the end of the line".
    std::printf("\r%s\x1b[K%s", text.c_str(), is_last ? "\n" : "");
  } else {
    std::printf("%s\n", text.c_str());
  }
  std::fflush(stdout);
}

}  // namespace training
