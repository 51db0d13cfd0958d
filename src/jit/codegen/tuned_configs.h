// Which configuration the records know for a kernel, and how well they fit.
#pragma once

#include <functional>
#include <vector>

#include "jit/codegen/tuning_record.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep::jit {

/// Records in the order in which they count: of those that fit equally well the first wins.
class JITSTEP_API TunedConfigs {
 public:
  /// Digest of the texts that currently make a kernel; asked only where a record of it is known.
  using Templates = std::function<std::string(const Plan&)>;

  /// `hardware`: what the kernels are for.
  TunedConfigs(std::vector<TuningRecord> records, const Hardware& hardware, Templates templates);

  /// The configuration of the record that fits best, or the default one. Fitting is, in this order: the same machine before
  /// another of its architecture; the size's bucket (a power of two of elements and of elements a tensor) before a
  /// near one, at most 2^4 away; the same templates before others; the earlier record. A record whose configuration the
  /// kernel cannot be run with does not count, nor one of an interrupted tuning.
  ConfigChoice choose(const Plan& plan, const WorkSize& size) const;

  /// The records that may be chosen for this kernel at some size, in the order in which they count.
  std::vector<const TuningRecord*> known(const Plan& plan) const;

  /// The complete record of this kernel, size bucket, machine and templates; null if there is none.
  const TuningRecord* exact(const Plan& plan, const WorkSize& size) const;

 private:
  struct Fit;
  Fit fit_of(const TuningRecord& record, const WorkSize& size, const std::string& templates) const;
  const TuningRecord* best(const Plan& plan, const WorkSize& size, Fit& fit) const;

  std::vector<TuningRecord> records_;
  Hardware hardware_;
  Templates templates_;
};

/// How far two sizes are apart: the larger difference, in powers of two, of elements and of elements a tensor.
JITSTEP_API double size_distance(const WorkSize& one, const WorkSize& other);

}  // namespace jitstep::jit
