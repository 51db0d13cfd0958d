#include "jit/base/digest.h"

#include <openssl/evp.h>

#include "jitstep/jit/error.h"

namespace jitstep::jit {

Digest sha256(std::span<const std::byte> bytes) {
  Digest digest;
  unsigned size = 0;
  auto* out = reinterpret_cast<unsigned char*>(digest.data());
  const int done = EVP_Digest(bytes.data(), bytes.size(), out, &size, EVP_sha256(), nullptr);
  if (done != 1 || size != digest.size())
    throw Error("cannot compute a SHA-256 digest: OpenSSL failed");
  return digest;
}

std::string sha256_hex(std::string_view content) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (std::byte value : sha256(std::as_bytes(std::span(content)))) {
    hex += kDigits[std::to_integer<int>(value) >> 4];
    hex += kDigits[std::to_integer<int>(value) & 15];
  }
  return hex;
}

}  // namespace jitstep::jit
