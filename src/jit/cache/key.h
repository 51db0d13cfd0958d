// What decides a binary's bits, and the name that follows from it.
#pragma once

#include <string>

#include "jitstep/jit/target.h"

namespace jitstep::jit {

/// Number of the cache's file format and key layout; see CACHE_FORMAT.md.
inline constexpr int kCacheSchema = 2;

/// The identity of a binary. Two keys are equal exactly if their fields are.
struct Key {
  std::string text_digest;  // sha256 of the flattened text, in hex
  Target target;
  std::string compiler;  // Compiler::identity

  /// The fields and the schema in clear, as JSON with sorted names.
  std::string canonical() const;
  /// sha256 of canonical(), in hex: names the cache file.
  std::string digest() const;

  bool operator==(const Key&) const = default;
};

}  // namespace jitstep::jit
