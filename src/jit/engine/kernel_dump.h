// Dumps kernels as files for people, and uses edited sources instead of generated ones.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "jit/base/problem.h"
#include "jitstep/jit/kernel.h"
#include "jitstep/jit/settings.h"

namespace jitstep::jit {

/// The folder of a source in JITSTEP_DUMP and JITSTEP_OVERRIDE: the unit's name and the start of the source's digest,
/// as in "adamw_int8_float32-1a2b3c4d5e6f".
std::string folder_of_text(const std::string& name, const std::string& token_digest);

/// The edited source in a folder. Nothing if there is none for this digest, or if it is unchanged. The file is code:
/// throws an Error if it belongs to another user or is writable by others.
std::optional<std::string> overriding_text(const std::string& folder, const std::string& name,
                                           const std::string& text,
                                           const std::string& token_digest);

/// A JSON object with name, target, key, compile time, and the resources of each entry.
std::string summary_json(const Built& built);

/// Writes to JITSTEP_DUMP, if it is set. Thread safe.
class KernelDump {
 public:
  explicit KernelDump(Settings settings);

  /// Writes to the source's folder unit.cuh and flat.cuh (the preprocessed source), unless they exist. Replaces the
  /// files of the target: the binary, the log and a summary, such as sm_90.cubin, sm_90.log and sm_90.json. A `built`
  /// without an image did not compile: its target has only the compiler's output, sm_90.failed.log. Writes each file
  /// atomically. Never throws. The first failure causes a warning.
  void write(const Built& built, const std::string& token_digest) noexcept;

 private:
  Problem write_files(const Built& built, const std::string& token_digest) const;

  Settings settings_;
  std::atomic<bool> warned_ = false;
};

}  // namespace jitstep::jit
