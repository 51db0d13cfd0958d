// Selects a kernel's configuration from tuning records.
#pragma once

#include <functional>
#include <vector>

#include "jit/tuning/tuning_record.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep::jit {

/// Tuning records in the order of precedence. Of records that fit equally well, the first is used.
class JITSTEP_API TunedConfigs {
 public:
  /// Returns the digest of the current source of a kernel. Called only for kernels that have a record.
  using Templates = std::function<std::string(const Plan&)>;

  /// `hardware`: the hardware that runs the kernels.
  TunedConfigs(std::vector<TuningRecord> records, const Hardware& hardware, Templates templates);

  /// The configuration of the record that fits best, or the default one. Criteria, in this order: the same machine
  /// before another one of its architecture, the same number of threads, the same size bucket before the nearest one,
  /// the same templates, the nearest size, the earlier record. A size bucket is a power of two of the elements and of the
  /// elements per tensor. Records more than 2^4 away are ignored, and configurations that the kernel does not support. Of an
  /// interrupted tuning, only a record with a winner is used.
  ConfigChoice choose(const Plan& plan, const WorkSize& size) const;

  /// All usable records of this kernel, for any size, in the order of precedence.
  std::vector<const TuningRecord*> known(const Plan& plan) const;

  /// The usable record of this kernel, size bucket, machine and templates. It may be of an interrupted tuning that had
  /// a winner. Null if there is none.
  const TuningRecord* exact(const Plan& plan, const WorkSize& size) const;

 private:
  struct Fit;
  Fit fit_of(const TuningRecord& record, const WorkSize& size, const std::string& templates) const;
  const TuningRecord* best(const Plan& plan, const WorkSize& size, Fit& fit) const;

  std::vector<TuningRecord> records_;
  Hardware hardware_;
  Templates templates_;
};

/// The distance of two sizes, in powers of two: the larger of the differences in elements and in elements per tensor.
JITSTEP_API double size_distance(const WorkSize& one, const WorkSize& other);

}  // namespace jitstep::jit
