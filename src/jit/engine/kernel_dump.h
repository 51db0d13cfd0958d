// Kernels as files for people: written as they are made, and edited ones taken in their place.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "jitstep/jit/kernel.h"
#include "jitstep/jit/settings.h"

namespace jitstep::jit {

/// What the folder of a text is called below JITSTEP_DUMP and JITSTEP_OVERRIDE: the unit's name and the begin
/// of the text's digest, as in "adamw_int8_float32-1a2b3c4d5e6f".
std::string folder_of_text(const std::string& name, const std::string& text_digest);

/// The edited text of a folder, or nothing if it has none for the text of this digest, or the same one. An Error
/// if it is not to be trusted: it is code.
std::optional<std::string> overriding_text(const std::string& folder, const std::string& name,
                                           const std::string& text, const std::string& text_digest);

/// One object: name, target, key, how long the compile took, and the resources of each entry.
std::string summary_json(const Built& built);

/// Writes into JITSTEP_DUMP, if that is set. Thread safe.
class KernelDump {
 public:
  explicit KernelDump(Settings settings);

  /// Puts into the folder of the text what is not there yet: unit.cuh, flat.cuh (what the compiler was given)
  /// and, for its target, the binary, the log and a summary, as sm_90.cubin, sm_90.log and sm_90.json. Each file is
  /// whole or not there. Never throws: what cannot be written is told once.
  void write(const Built& built, const std::string& text_digest) noexcept;

 private:
  std::optional<std::string> write_files(const Built& built, const std::string& text_digest) const;

  Settings settings_;
  std::atomic<bool> warned_ = false;
};

}  // namespace jitstep::jit
