// What steps leave in the buffers of tensors, byte for byte, and where two outcomes differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "jitstep/jit/dtype.h"

namespace jitstep::emulation {

/// What the elements of a buffer are; `nibbles`: two to a byte, the even one in the low half.
enum class Elements { float64, float32, bfloat16, float16, bytes, nibbles };

/// Elements of a parameter's or gradient's dtype.
Elements elements_of(jit::Dtype dtype);

/// One buffer of a tensor, between two guards that no kernel may touch.
struct StoredBuffer {
  static constexpr std::size_t kGuard = 64;  // bytes
  static constexpr int kNoTensor = -1;       // memory that all tensors share

  int tensor = 0;
  std::string name;  // "p", "m.codes", "m.meta", "memory.row", "extra", "g"
  Elements elements = Elements::bytes;
  int width = 1;                 // bytes of an element, one for nibbles
  std::vector<std::byte> bytes;  // guard, elements, guard

  /// NaNs of 32 and more bits become the same one, which is all that targets agree about.
  void make_nans_one();
};

/// The buffers of all tensors, in the same order for the same case.
using StepOutcome = std::vector<StoredBuffer>;

/// The first place where a buffer differs.
struct Difference {
  int tensor = 0;
  std::string name;          // of the buffer
  std::int64_t element = 0;  // counted in its memory; one that it does not have lies in a guard
  bool outside = false;      // it does
  std::string one = "", other = "";  // the values: "0.5 (0x3f000000)"

  bool operator==(const Difference&) const = default;
};

/// "tensor 2: p[17] is 0.5 (0x3f000000) and 0.25 (0x3e800000)".
std::string to_string(const Difference& difference);
inline std::ostream& operator<<(std::ostream& out, const Difference& difference) {
  return out << to_string(difference);
}

/// One for each buffer that differs; empty if none does. An Error if they are of different cases.
std::vector<Difference> differences(const StepOutcome& one, const StepOutcome& other);

}  // namespace jitstep::emulation
