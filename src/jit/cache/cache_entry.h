// Encoding of one cache file. CACHE_FORMAT.md specifies it.
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

/// The cached result of a compile.
struct CacheEntry {
  std::string name;  // of the translation unit, for people
  Binary binary;
  double compile_ms = 0;
  Sources sources = {};   // to explain why another key differs
  std::string unit = {};  // the translation unit, for the same purpose
};

/// The metadata of an entry.
struct EntryHeader {
  Key key;
  std::string name;
  double compile_ms = 0;
  Sources sources = {};
  std::string unit = {};  // empty: unknown
};

/// Larger entries are neither written nor read, so that a file cannot exhaust memory.
inline constexpr std::uint64_t kLargestEntry = std::uint64_t{1} << 28;

/// The content of the file.
std::vector<std::byte> encode_entry(const Key& key, const CacheEntry& entry);

/// The entry, or nothing if the bytes are damaged or belong to another key.
std::optional<CacheEntry> decode_entry(std::span<const std::byte> bytes, const Key& key);

/// The header of a file of this schema. Does not verify the checksum, so use the header only after decode_entry has
/// accepted the same bytes.
std::optional<EntryHeader> header_of(std::span<const std::byte> bytes);

/// The same for a file of `file_bytes` bytes of which only the start is known: at least header_end() bytes.
std::optional<EntryHeader> header_of(std::span<const std::byte> start, std::uint64_t file_bytes);

/// The number of bytes that header_of needs from the start of a file. `start` has at least kShortestStart bytes of it.
/// 0 if the file is not an entry of this schema.
std::uint64_t header_end(std::span<const std::byte> start);
inline constexpr std::uint64_t kShortestStart = 20;

/// The schema of a file with an entry's magic number.
std::optional<std::uint32_t> schema_of(std::span<const std::byte> bytes);

}  // namespace jitstep::jit
