// The bytes of one cache file. See CACHE_FORMAT.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "jit/cache/key.h"
#include "jit/source/source_digests.h"
#include "jitstep/jit/compiler.h"

namespace jitstep::jit {

/// What the cache keeps of a compile.
struct CacheEntry {
  std::string name;  // of the unit, for people
  Binary binary;
  double compile_ms = 0;
  Sources sources = {};   // to tell why another key is not this one's
  std::string unit = {};  // the unit's own text, for the same
};

/// What an entry says of itself beside the binary.
struct EntryHeader {
  Key key;
  std::string name;
  double compile_ms = 0;
  Sources sources = {};
  std::string unit = {};  // empty: not known
};

/// No entry is larger, so that no file can take all memory.
inline constexpr std::uint64_t kLargestEntry = std::uint64_t{1} << 28;

/// The file's bytes.
std::vector<std::byte> encode_entry(const Key& key, const CacheEntry& entry);

/// The entry, or nothing if the bytes are damaged in any way or belong to another key.
std::optional<CacheEntry> decode_entry(std::span<const std::byte> bytes, const Key& key);

/// The header of a file of this schema. Not checked against the checksum: what follows from it
/// holds only once decode_entry has taken the same bytes.
std::optional<EntryHeader> header_of(std::span<const std::byte> bytes);

/// The schema of a file that starts like an entry.
std::optional<std::uint32_t> schema_of(std::span<const std::byte> bytes);

}  // namespace jitstep::jit
