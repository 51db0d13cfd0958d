// What a kernel is compiled for.
#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// The host, a GPU architecture, or the GPU's own text run on the host by the SIMT emulation.
struct JITSTEP_API Target {
  /// Where a kernel runs.
  enum class Kind { cpu, cuda, emulated };

  Kind kind = Kind::cpu;
  /// Compute capability times ten, such as 90. Zero unless kind is cuda.
  int sm = 0;

  /// The three kinds of targets; `sm` is 90 for compute capability 9.0.
  static Target cpu() { return {Kind::cpu, 0}; }
  static Target cuda(int sm) { return {Kind::cuda, sm}; }
  static Target emulated() { return {Kind::emulated, 0}; }

  /// Whether it is a GPU, not its emulation.
  bool is_cuda() const { return kind == Kind::cuda; }
  auto operator<=>(const Target&) const = default;
};

/// "cpu", "sm_90" or "emulated".
JITSTEP_API std::string to_string(const Target& target);

/// The inverse of to_string; anything else is an Error.
JITSTEP_API Target parse_target(std::string_view text);

}  // namespace jitstep::jit
