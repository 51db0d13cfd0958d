// One training's progress on standard output: in place on a terminal, else a line now and then.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace training {

class Progress {
 public:
  Progress(std::string name, std::int64_t total_steps);

  /// After each step; prints only when something is due.
  void update(std::int64_t step, double loss);

  /// The last line, which stays.
  void finish(double accuracy);

  double seconds() const;

 private:
  std::string line() const;
  void print(const std::string& text, bool stays);

  std::string name_;
  std::int64_t total_steps_;
  bool terminal_;
  std::chrono::steady_clock::time_point start_;
  double next_print_ = 0;  // seconds after start_
  std::int64_t step_ = 0;
  double loss_ = 0;  // running mean, for a figure that can be read
};

}  // namespace training
