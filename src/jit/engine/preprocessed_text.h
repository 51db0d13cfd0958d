// Unit texts as compilers see them: self-contained, with digests, and with an edited text of the user's in place.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "jit/base/fork_guard.h"
#include "jit/source/source_digests.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/settings.h"
#include "jitstep/jit/template_store.h"

namespace jitstep::jit {

/// A unit's flattened text.
struct FlatText {
  std::string text;
  std::string digest;       // of the code: what the disk cache knows it by
  std::string text_digest;  // of all of it: errors name lines, which comments move
  std::string unit;
  Texts included;
  bool is_overridden = false;  // by an edited text, which came with no templates

  /// Many digests: of what is not in the cache alone.
  Sources sources() const {
    return is_overridden ? Sources{{"JITSTEP_OVERRIDE", digest}} : sources_of(unit, included);
  }
};

using PreprocessedPointer = std::shared_ptr<const FlatText>;

/// The same error with the user's own paths in place of the names of templates.
CompileError in_users_paths(const CompileError& error, const FlatText& preprocessed,
                            const TemplateStore& templates);

/// Flattens each text once while the templates stay as they are. Thread safe. Both arguments must outlive it.
class FlatTexts {
 public:
  FlatTexts(const TemplateStore& templates, const Settings& settings)
      : templates_(templates), settings_(settings) {}

  PreprocessedPointer get(const std::string& translation_unit, const std::string& name);

 private:
  void override_with_edited(FlatText& preprocessed, const std::string& name) const;

  const TemplateStore& templates_;
  const Settings& settings_;
  ForkSafeMutex mutex_;  // of what follows
  std::uint64_t version_ = 0;
  std::unordered_map<std::string, PreprocessedPointer> known_;
};

}  // namespace jitstep::jit
