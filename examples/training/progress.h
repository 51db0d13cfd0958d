// Prints the progress of one training to standard output: a line that is updated on a terminal, else a line every 5 s.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace training {

class Progress {
 public:
  Progress(std::string name, std::int64_t total_steps);

  /// Call it after each step. It prints at most every 0.1 s on a terminal, else every 5 s.
  void update(std::int64_t step, double loss);

  /// Prints the last line.
  void finish(double accuracy);

  double seconds() const;

 private:
  std::string line() const;
  void print(const std::string& text, bool is_last);

  std::string name_;
  std::int64_t total_steps_;
  bool terminal_;
  std::chrono::steady_clock::time_point start_;
  double next_print_ = 0;  // seconds after start_
  std::int64_t step_ = 0;
  double loss_ = 0;  // exponential mean, which is easier to read
};

}  // namespace training
