// Chooses the configurations of an engine's kernels on one machine from tuning records: the user's, those of the
// read-only cache, and the built-in ones.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jit/base/fork_guard.h"
#include "jit/tuning/tuned_configs.h"
#include "jitstep/jit/engine.h"
#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// Digest of the preprocessed source of the plan's kernel in this engine, with the default configuration.
JITSTEP_API std::string template_digest(Engine& engine, const Plan& plan, const Target& target);

/// The versions for a new record. The compiler is empty if it is missing, and for GPUs.
JITSTEP_API RecordVersions versions_of(Engine& engine, const Plan& plan, const Target& target);

/// Thread safe. The engine must outlive it. Reads the user's file again if it has changed.
class JITSTEP_API ConfigChooser {
 public:
  ConfigChooser(Engine& engine, Hardware hardware);
  ~ConfigChooser();

  ConfigChoice choose(const Plan& plan, const WorkSize& size);
  /// All records of this kernel for machines of this architecture, in the order of precedence.
  std::vector<TuningRecord> known(const Plan& plan);
  /// The usable record of this kernel, size bucket, machine and templates, if there is one. It may be of an interrupted
  /// tuning that had a winner.
  std::optional<TuningRecord> exact(const Plan& plan, const WorkSize& size);

 private:
  std::shared_ptr<const TunedConfigs> records();

  Engine& engine_;
  Hardware hardware_;
  ForkSafeMutex mutex_;
  std::shared_ptr<const TunedConfigs> records_;
  std::string stamp_;  // of the user's file at the last read
};

/// A provider that chooses from the tuning records of this hardware. The engine must outlive it.
JITSTEP_API ConfigProvider recorded_configs(Engine& engine, Hardware hardware);
/// The same for the CPU with the number of threads that `threads` returns at each call. Thread-safe if `threads` is.
JITSTEP_API ConfigProvider recorded_host_configs(Engine& engine, std::function<int()> threads);

}  // namespace jitstep::jit
