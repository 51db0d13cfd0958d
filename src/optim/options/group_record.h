// What an optimizer derives from the options of one parameter group, kept until they change.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "jitstep/args.h"
#include "jitstep/jit/plan.h"
#include "jitstep/options.h"

namespace jitstep {

/// When options are looked at. Torch checks their ranges when an optimizer is made and never again:
/// a learning rate that became negative later, as a schedule may make it, steps the other way.
enum class ValidationPhase { construction, step };

/// What a parameter's state holds before step 1.
struct InitialValues {
  std::vector<double> slots;      // [slot]
  std::vector<double> aux_state;  // [field of the kernel's plan]
  std::vector<double> hyper;      // HyperParams::hyper, where a codec may take numbers from there
};

/// The validated options of one group in the words of the kernels.
class GroupRecord {
 public:
  /// Brings the record and the group's numbers (without a step number) up to date; a comparison of
  /// a few numbers when nothing changed. A c10::Error for options that are out of range, before
  /// anything is changed.
  void refresh(const Options& options, ValidationPhase phase, HyperParams& numbers);

  /// Grows whenever parameters may need another kernel: flags or formats changed.
  int revision() const { return revision_; }

  /// The options as they were when last brought up to date.
  const jit::OptionValues& values() const { return *values_; }

  /// The kernel of one of the group's parameters: a c10::Error if its formats do not go together.
  std::shared_ptr<const jit::Plan> plan(const torch::Tensor& parameter) const;

  /// What memory of all parameters begins with.
  std::vector<double> initial_common() const;

  /// What the state under that kernel begins with; the parameter's `number` in the group indexes options that list
  /// parameters.
  InitialValues initial(const jit::Plan& plan, int number) const;

 private:
  std::vector<double> seen_, now_;  // snapshots of the options
  std::optional<jit::OptionValues> values_;
  jit::Formats formats_;
  int revision_ = 0;
};

}  // namespace jitstep
