// SHA-256 digests, without a library: they need no secrets, and a wheel must run where no OpenSSL is.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace jitstep::jit {

using Digest = std::array<std::byte, 32>;

/// The SHA-256 digest of the bytes.
Digest sha256(std::span<const std::byte> bytes);

/// The SHA-256 digest of a text, as 64 lower-case hex digits.
std::string sha256_hex(std::string_view content);

}  // namespace jitstep::jit
