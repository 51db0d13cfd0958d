// The bytes of all tensor buffers after steps, and the differences of two outcomes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "jitstep/jit/manifest.h"
#include "jitstep/jit/value.h"

namespace jitstep::emulation {

/// Element type of a buffer. `nibbles`: two per byte, the even one in the low bits.
enum class Elements { float64, float32, bfloat16, float16, bytes, nibbles };

/// The element type of a buffer with the values of a parameter or gradient.
Elements buffer_type_of(jit::Dtype dtype);

/// The element types of the buffers with a slot's codes, and with its metadata.
Elements elements_of_codes(const jit::Manifest& codec, jit::Dtype parameter);
Elements elements_of_fields(const std::vector<jit::Field>& fields);

/// One buffer of a tensor, between two guard regions that kernels must not change.
struct StoredBuffer {
  static constexpr std::size_t kGuard = 64;  // bytes
  static constexpr int kNoTensor = -1;       // shared state

  int tensor = 0;
  std::string name;  // "p", "m.codes", "m.meta", "aux_state.row", "residual", "g"
  Elements elements = Elements::bytes;
  int width = 1;                 // bytes per element; 1 for nibbles
  std::vector<std::byte> bytes;  // guard, elements, guard

  /// Replaces all float32 and float64 NaNs by one NaN, because targets do not agree on the bits of a NaN.
  void canonicalize_nans();
};

/// The buffers of all tensors. The order depends only on the case.
using StepOutcome = std::vector<StoredBuffer>;

/// The first difference of a buffer.
struct Difference {
  int tensor = 0;
  std::string name;                  // of the buffer
  std::int64_t element = 0;          // index in memory; outside of the buffer for a guard
  bool outside = false;              // whether the difference is in a guard
  std::string one = "", other = "";  // the values: "0.5 (0x3f000000)"

  bool operator==(const Difference&) const = default;
};

/// "tensor 2: p[17] is 0.5 (0x3f000000) and 0.25 (0x3e800000)".
std::string to_string(const Difference& difference);
inline std::ostream& operator<<(std::ostream& out, const Difference& difference) {
  return out << to_string(difference);
}

/// One entry for each buffer that differs. Throws an Error if the outcomes belong to different cases.
std::vector<Difference> differences(const StepOutcome& one, const StepOutcome& other);

}  // namespace jitstep::emulation
