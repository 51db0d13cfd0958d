// Helpers that the tests of the cache share: keys, entries and their files.
#pragma once

#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "jit/base/digest.h"
#include "jit/base/file_io.h"
#include "jit/cache/cache_folder.h"
#include "jit/cache/disk_cache.h"
#include "jit/compiler/host_compiler.h"
#include "jit/fixtures.h"

namespace jitstep::jit::testing {

inline Settings in(const std::string& folder) {
  Settings settings;
  settings.cache_dir = folder;
  return settings;
}

/// `below` is the read-only cache.
inline Settings in(const std::string& folder, const std::string& below) {
  Settings settings = in(folder);
  settings.cache_readonly = below;
  return settings;
}

inline Key key_of(const std::string& content) {
  return {sha256_hex(content), Target::cuda(90), "a compiler, version 1"};
}

/// An entry whose binary is text with a zero byte at the end, like PTX.
inline CacheEntry entry_of(std::string payload) {
  payload += '\0';
  const auto bytes = bytes_of(payload);
  return {"unit",
          {{bytes.begin(), bytes.end()}, "the log", {{"step", 40, 1, 2, 3, 4}}},
          12.5,
          {{kUnitSource, "1"}, {"rules/lion.cuh", "2"}}};
}

inline std::string payload_of(const std::optional<CacheEntry>& entry) {
  if (!entry) return "(a miss)";
  const auto& image = entry->binary.image;
  return text_of(std::span(image).first(image.size() - 1));
}

inline std::string payload_of(const std::optional<DiskCache::Found>& found) {
  return payload_of(found ? std::optional(found->entry) : std::nullopt);
}

inline std::string content_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

inline std::string bytes_text(const std::vector<std::byte>& bytes) { return text_of(bytes); }

/// Has a compiler's identity but compiles nothing, so that an engine computes keys at once. Its binary is not the
/// kernel, so nothing may reach a cache: set `cache_bytes` to 0.
template <class Base>
class IdentityOnly : public Base {
 public:
  using Base::Base;
  Binary compile(const std::string&, const std::string& name, const Target& target) override {
    if (target.is_cuda()) return {{std::byte{0}}, "", {}};
    static const Binary one =
        HostCompiler(Settings::from_environment()).compile(adding_unit("1"), name, Target::cpu());
    return one;
  }
};

/// Sets a file's time stamp to `hours` ago. Negative hours are in the future.
inline void age(const std::string& file, int hours) {
  fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(hours));
}

}  // namespace jitstep::jit::testing
