// The bytes of one cache file. See CACHE_FORMAT.md.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "jitstep/jit/compiler.h"
#include "jitstep/jit/key.h"

namespace jitstep::jit {

/// What the cache keeps of a compile.
struct CacheEntry {
  std::string name;  // of the unit, for people
  Binary binary;
  double compile_ms = 0;
};

/// The file's bytes.
std::vector<std::byte> encode_entry(const Key& key, const CacheEntry& entry);

/// The entry, or nothing if the bytes are damaged in any way or belong to another key.
std::optional<CacheEntry> decode_entry(std::span<const std::byte> bytes, const Key& key);

/// The JSON header of an undamaged file, whatever its key: for tools and for machines without a
/// compiler.
std::optional<std::string> entry_header(std::span<const std::byte> bytes);

}  // namespace jitstep::jit
