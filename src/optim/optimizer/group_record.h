// Data derived from the options of one parameter group, cached until the options change.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "jitstep/hyper_params.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/plan.h"
#include "jitstep/options.h"
#include "optim/state/state_buffers.h"

namespace jitstep {

/// When options are validated. torch checks ranges at construction only, so a schedule may make a learning rate
/// negative later. In phase `step` a negative learning rate is therefore valid.
enum class ValidationPhase { construction, step };

/// True if the rule has a learning rate: an option lr that is always a number.
bool has_lr(const jit::Manifest& rule);

/// The validated options of one group, as kernels need them.
class GroupRecord {
 public:
  /// Empty until refresh().
  GroupRecord() = default;
  /// Validates options. Throws a c10::Error if one is out of range.
  GroupRecord(const Options& options, ValidationPhase phase) {
    HyperParams numbers;
    refresh(options, phase, numbers);
  }

  /// Updates the record and the group's `numbers` (all but the step number). Compares memory if nothing changed, and
  /// copies it if only numbers changed that nothing else depends on, such as a learning rate. Throws a c10::Error if an
  /// option is out of range; then nothing has changed.
  void refresh(const Options& options, ValidationPhase phase, HyperParams& numbers);

  /// Increases when flags, matrices or formats change: parameters may then need another kernel or other memory.
  std::int64_t revision() const { return revision_; }

  /// The options at the last refresh().
  const jit::OptionValues& values() const { return *values_; }

  /// The plan of one of the group's parameters. Parameters of the same dtype and sizes share it, until an
  /// option changes. Throws a c10::Error if its formats cannot be combined. Not thread-safe.
  std::shared_ptr<const jit::Plan> plan(const torch::Tensor& parameter) const;

  /// Initial values of the shared state.
  std::vector<double> initial_shared_state() const;

  /// Initial values of the state of a parameter with this plan. `number`: the parameter's number in its group, without
  /// duplicates. It indexes options that have one value per parameter.
  InitialValues initial(const jit::Plan& plan, int number) const;

 private:
  bool is_known(const Options& options) const;
  bool refresh_numbers();
  void refresh_all(const Options& options, ValidationPhase phase, HyperParams& numbers);

  std::optional<jit::OptionValues> values_;
  std::vector<double> now_;                // options packed as in values_
  const jit::Catalog* catalog_ = nullptr;  // of the options
  jit::Formats formats_;
  std::int64_t revision_ = 0;
  mutable std::map<jit::ParameterKind, std::shared_ptr<const jit::Plan>> plans_;
};

}  // namespace jitstep
