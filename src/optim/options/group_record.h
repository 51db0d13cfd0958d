// What an optimizer derives from the options of one parameter group, kept until they change.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "jitstep/options.h"
#include "optim/optimizer/stepper.h"

namespace jitstep {

/// The validated options of one group in the words of the kernels.
class GroupRecord {
 public:
  /// Brings the record and the group's numbers up to date; a comparison of a few numbers when
  /// nothing changed. A c10::Error for options that are out of range, before anything is changed.
  void refresh(const Options& options, GroupNumbers& numbers);

  /// Grows whenever parameters may need another kernel: flags or formats changed.
  int revision() const { return revision_; }

  /// The kernel of one of the group's parameters: a c10::Error if its formats do not go together.
  jit::KernelSpec spec(const torch::Tensor& parameter) const;

  /// What each memory field of that kernel holds before step 1.
  std::vector<double> initial_memory(const jit::KernelSpec& spec, int id) const;

 private:
  std::vector<double> seen_, now_;  // snapshots of the options
  std::optional<jit::OptionValues> values_;
  Formats formats_;
  int revision_ = 0;
};

}  // namespace jitstep
