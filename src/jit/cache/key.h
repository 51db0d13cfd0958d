// Cache keys: everything that determines a binary, and the file name.
#pragma once

#include <string>

#include "jitstep/jit/target.h"

namespace jitstep::jit {

/// Version of the cache's file format and key layout. See CACHE_FORMAT.md.
inline constexpr int kCacheSchema = 2;

/// The identity of a binary. Two keys are equal if and only if their fields are.
struct Key {
  std::string token_digest;  // sha256 of the preprocessed source's tokens, in hex
  Target target;
  std::string compiler;  // Compiler::identity

  /// Fields and schema as JSON with sorted names.
  std::string canonical() const;
  /// sha256 of canonical(), in hex. Names the cache file.
  std::string digest() const;

  bool operator==(const Key&) const = default;
};

}  // namespace jitstep::jit
