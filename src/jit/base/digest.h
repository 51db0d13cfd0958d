// SHA-256 by a known library.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace jitstep::jit {

using Digest = std::array<std::byte, 32>;

/// The SHA-256 of some bytes.
Digest sha256(std::span<const std::byte> bytes);

/// The SHA-256 of a text as 64 lower-case hex digits.
std::string sha256_hex(std::string_view content);

}  // namespace jitstep::jit
