// Reads arbitrary bytes as a cache entry, and a valid entry with arbitrary damage. The result must never be another
// binary.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "jit/cache/cache_entry.h"

using namespace jitstep::jit;

namespace {

const Key kKey{std::string(64, 'a'), Target::cpu(), "a compiler"};

std::vector<std::byte> right_entry() {
  CacheEntry entry;
  entry.name = "a kernel";
  entry.binary.image.assign(100, std::byte{7});
  entry.binary.log = "a log";
  return encode_entry(kKey, entry);
}

void read(const std::vector<std::byte>& bytes, bool damaged) {
  header_of(bytes);
  const auto found = decode_entry(bytes, kKey);
  if (found.has_value() == damaged) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  header_of(bytes);
  header_of(bytes, size + header_end(bytes));
  decode_entry(bytes, kKey);

  std::vector<std::byte> entry = right_entry();
  bool damaged = false;
  for (std::size_t i = 0; i < size; ++i) {
    damaged = damaged || (i < entry.size() && data[i] != 0);
    if (i < entry.size()) entry[i] ^= static_cast<std::byte>(data[i]);
  }
  read(entry, damaged);
  return 0;
}
