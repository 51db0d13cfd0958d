// How the kernels of one engine are run on one machine, by the records: the user's, the read-only layer's, the
// shipped ones.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jit/base/fork_guard.h"
#include "jit/codegen/tuned_configs.h"
#include "jitstep/jit/engine.h"
#include "jitstep/jit/export.h"

namespace jitstep::jit {

struct Batch;

/// How much a launch of these tensors steps.
JITSTEP_API WorkSize work_of(const Batch& batch);

/// Digest of all texts that a kernel of the plan is made of in this engine, but for its configuration.
JITSTEP_API std::string template_digest(Engine& engine, const Plan& plan, const Target& target);

/// Who wrote records: nothing is known of a compiler that is missing.
JITSTEP_API RecordVersions versions_of(Engine& engine, const Plan& plan, const Target& target);

/// Thread safe; the engine must outlive it. Reads the user's file again when it has changed.
class JITSTEP_API ConfigChooser {
 public:
  ConfigChooser(Engine& engine, Hardware hardware);
  ~ConfigChooser();

  ConfigChoice choose(const Plan& plan, const WorkSize& size);
  /// All records of this kernel on machines of this architecture, in the order in which they count.
  std::vector<TuningRecord> known(const Plan& plan);
  /// The complete record of this kernel, size, machine and templates, if there is one.
  std::optional<TuningRecord> exact(const Plan& plan, const WorkSize& size);

 private:
  std::shared_ptr<const TunedConfigs> records();

  Engine& engine_;
  Hardware hardware_;
  ForkSafeMutex mutex_;
  std::shared_ptr<const TunedConfigs> records_;
  std::string stamp_;  // of the user's file when it was read
};

}  // namespace jitstep::jit
