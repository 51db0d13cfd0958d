// The target that a kernel is compiled for.
#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// The CPU, a GPU architecture, or the SIMT emulation, which runs the GPU source on the CPU.
struct JITSTEP_API Target {
  /// Where a kernel runs.
  enum class Kind { cpu, cuda, emulated };

  Kind kind = Kind::cpu;
  /// Compute capability times ten, such as 90. Zero unless kind is cuda.
  int sm = 0;

  /// The three kinds of targets. `sm` is 90 for compute capability 9.0.
  static Target cpu() { return {Kind::cpu, 0}; }
  static Target cuda(int sm) { return {Kind::cuda, sm}; }
  static Target emulated() { return {Kind::emulated, 0}; }

  /// True for a GPU, not for its emulation.
  bool is_cuda() const { return kind == Kind::cuda; }
  auto operator<=>(const Target&) const = default;
};

/// "cpu", "sm_90" or "emulated".
JITSTEP_API std::string to_string(const Target& target);

/// Inverse of to_string(). Any other text throws an Error.
JITSTEP_API Target parse_target(std::string_view text);

}  // namespace jitstep::jit
