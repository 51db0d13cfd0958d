#include "emulation/step_outcome.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <span>

#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::emulation {
namespace {

using jit::Dtype;
using jit::str_cat;
using Bytes = std::span<const std::byte>;

template <class T>
T read(Bytes bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// The shortest text that reads back the same.
template <class T>
std::string shortest(T value) {
  char word[40];
  const auto end = std::to_chars(word, word + sizeof word, value).ptr;
  return {word, end};
}

float from_bfloat16(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

float from_float16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float sign = bits >> 15 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return sign * std::ldexp(static_cast<float>(exponent == 0 ? fraction : fraction + 1024),
                           std::max(exponent, 1) - 25);
}

// The bytes as one little-endian number.
std::string hex(Bytes bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string out = "0x";
  for (std::size_t i = bytes.size(); i-- > 0;) {
    const auto byte = std::to_integer<unsigned>(bytes[i]);
    out += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

std::string number(Bytes bytes, Elements elements) {
  switch (elements) {
    case Elements::float64:
      return shortest(read<double>(bytes));
    case Elements::float32:
      return shortest(read<float>(bytes));
    case Elements::bfloat16:
      return shortest(from_bfloat16(read<std::uint16_t>(bytes)));
    case Elements::float16:
      return shortest(from_float16(read<std::uint16_t>(bytes)));
    case Elements::bytes:
    case Elements::nibbles:
      break;
  }
  return "";
}

std::string shown(Bytes bytes, Elements elements) {
  const std::string value = number(bytes, elements);
  return value.empty() ? hex(bytes) : str_cat(value, " (", hex(bytes), ")");
}

std::string nibble(std::byte byte, bool high) {
  return hex(std::vector{high ? byte >> 4 : byte & std::byte{15}});
}

Difference difference_at(const StoredBuffer& one, const StoredBuffer& other, std::size_t byte) {
  Difference found{.tensor = one.tensor, .name = one.name};
  const auto guard = static_cast<std::int64_t>(StoredBuffer::kGuard),
             width = std::int64_t{one.width};
  const auto at = static_cast<std::int64_t>(byte) - guard;
  const auto inside = static_cast<std::int64_t>(one.bytes.size()) - 2 * guard;
  found.outside = at < 0 || at >= inside;
  found.element = at < 0 ? -1 - (-1 - at) / width : at / width;
  if (one.elements == Elements::nibbles && !found.outside) {
    const bool high = (one.bytes[byte] & std::byte{15}) == (other.bytes[byte] & std::byte{15});
    found.element = 2 * at + (high ? 1 : 0);
    found.one = nibble(one.bytes[byte], high);
    found.other = nibble(other.bytes[byte], high);
    return found;
  }
  const auto begin = static_cast<std::size_t>(found.outside ? at : found.element * width);
  const auto size = found.outside ? 1 : static_cast<std::size_t>(width);
  const Elements elements = found.outside ? Elements::bytes : one.elements;
  found.one = shown(Bytes(one.bytes).subspan(begin + StoredBuffer::kGuard, size), elements);
  found.other = shown(Bytes(other.bytes).subspan(begin + StoredBuffer::kGuard, size), elements);
  return found;
}

}  // namespace

Elements buffer_type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float64:
      return Elements::float64;
    case Dtype::float32:
      return Elements::float32;
    case Dtype::bfloat16:
      return Elements::bfloat16;
    case Dtype::float16:
      break;
  }
  return Elements::float16;
}

Elements elements_of_codes(const jit::Manifest& codec, Dtype parameter) {
  if (codec.code == "real")
    return jit::real_bytes(parameter) == 8 ? Elements::float64 : Elements::float32;
  return codec.code == "Nibble" ? Elements::nibbles : Elements::bytes;
}

Elements elements_of_fields(const std::vector<jit::Field>& fields) {
  return fields.size() == 1 && fields[0].type == "float" ? Elements::float32 : Elements::bytes;
}

void StoredBuffer::canonicalize_nans() {
  if (elements != Elements::float32 && elements != Elements::float64) return;
  const auto size = static_cast<std::size_t>(width);
  for (std::size_t at = kGuard; at + size + kGuard <= bytes.size(); at += size) {
    const Bytes element = Bytes(bytes).subspan(at, size);
    const bool nan =
        width == 8 ? std::isnan(read<double>(element)) : std::isnan(read<float>(element));
    if (nan) std::memset(&bytes[at], 0xff, size);
  }
}

std::string to_string(const Difference& difference) {
  const std::string index = str_cat(difference.name, "[", difference.element, "]");
  const bool shared = difference.tensor == StoredBuffer::kNoTensor;
  return str_cat(shared ? "all tensors" : str_cat("tensor ", difference.tensor), ": ", index,
                 difference.outside ? ", outside of the buffer," : "", " is ", difference.one,
                 " and ", difference.other);
}

std::vector<Difference> differences(const StepOutcome& one, const StepOutcome& other) {
  if (one.size() != other.size()) throw jit::Error("cannot compare outcomes of different cases");
  std::vector<Difference> found;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const auto& a = one[i].bytes;
    const auto& b = other[i].bytes;
    if (one[i].name != other[i].name || a.size() != b.size())
      throw jit::Error("cannot compare outcomes of different cases");
    const auto at = std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
    if (at < std::ssize(a))
      found.push_back(difference_at(one[i], other[i], static_cast<std::size_t>(at)));
  }
  return found;
}

}  // namespace jitstep::emulation
