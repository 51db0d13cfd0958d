// Preprocessed sources with digests, replaced by the user's edited sources if there are any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "jit/base/fork_guard.h"
#include "jit/source/source_digests.h"
#include "jit/source/template_data.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/settings.h"
#include "jitstep/jit/template_store.h"

namespace jitstep::jit {

/// A preprocessed translation unit.
struct PreprocessedSource {
  std::string text;
  std::string token_digest;      // comments and line breaks do not change it; part of the cache key
  std::string full_text_digest;  // of every byte, because comments move the lines in errors
  std::string unit;
  Texts included;
  bool is_overridden = false;  // by an edited source, which has no templates

  /// Computes many digests, so call it only on cache misses.
  Sources sources() const {
    return is_overridden ? Sources{{"JITSTEP_OVERRIDE", token_digest}} : sources_of(unit, included);
  }
};

using PreprocessedPointer = std::shared_ptr<const PreprocessedSource>;

/// The same error with the user's own paths instead of template names.
CompileError in_users_paths(const CompileError& error, const PreprocessedSource& preprocessed,
                            const TemplateStore& templates);

/// Preprocesses each text once, until a template changes. Thread safe. Both arguments must outlive it.
class PreprocessedSources {
 public:
  PreprocessedSources(const TemplateStore& templates, const Settings& settings)
      : templates_(templates), settings_(settings) {}

  PreprocessedPointer get(const std::string& translation_unit, const std::string& name);

 private:
  void override_with_edited(PreprocessedSource& preprocessed, const std::string& name) const;

  const TemplateStore& templates_;
  const Settings& settings_;
  ForkSafeMutex mutex_;  // guards the members below
  std::uint64_t version_ = 0;
  std::unordered_map<std::string, PreprocessedPointer> known_;
};

}  // namespace jitstep::jit
