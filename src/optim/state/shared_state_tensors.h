// Shared state of an optimizer (auxiliary state of domain `all`) as a torch tensor.
#pragma once

#include <torch/types.h>

#include <optional>
#include <string>
#include <vector>

#include "jitstep/jit/manifest.h"
#include "jitstep/jit/state_storage.h"

namespace jitstep {

/// The names of a rule's fields of domain `all`, in the order of declaration.
std::vector<std::string> shared_names(const jit::Manifest& rule);

/// The index of such a field, by its name or torch's name. Throws a c10::Error that lists the names if there is none.
std::size_t shared_index(const jit::Manifest& rule, const std::string& name);

/// Not copyable, because kernels hold its address. Not thread-safe.
class SharedStateTensors {
 public:
  SharedStateTensors() = default;
  SharedStateTensors(const SharedStateTensors&) = delete;
  SharedStateTensors& operator=(const SharedStateTensors&) = delete;

  /// Moves the values to a device before a step. Sets them to `initial` if neither a step nor the user has changed
  /// them.
  void bind(const torch::Device& device, const std::vector<double>& initial);

  /// The argument of a step. Null for a rule without shared state.
  jit::SharedState* aux_state() { return buffers_.defined() ? &aux_state_ : nullptr; }
  /// float64 [2, fields], the two buffers; and the device's int64 counter. Undefined if they do not exist.
  const torch::Tensor& buffers() const { return buffers_; }
  const torch::Tensor& step_offset() const { return step_offset_; }
  /// Makes the device count skipped steps. Call it before a step that may be skipped.
  void count_skips();
  /// Makes the device (true) or the host (false) count all steps. Waits for the device.
  void count_on_device(bool on);
  bool is_on_device() const { return on_device_; }

  /// The current values on the host. Empty before the first step, unless they were set.
  std::optional<std::vector<double>> values() const;
  /// Replaces the values. The next step continues from them.
  void set(const std::vector<double>& values);
  /// Drops the values. The next step restarts from initial values.
  void clear();

  /// True if a step was taken since construction, set() or clear(). Waits for the device if it may have skipped steps.
  /// All functions that read values do so, too.
  bool has_stepped() const { return steps() > 0; }

 private:
  void write(const std::vector<double>& values);
  std::int64_t steps() const;
  void attach(std::int64_t step_offset);
  void restart();

  torch::Tensor buffers_;               // [2, fields]
  mutable torch::Tensor step_offset_;   // on the device; undefined: it counts no steps
  bool on_device_ = false;              // the device counts all steps; aux_state_.steps is constant
  mutable jit::SharedState aux_state_;  // mutable: steps() updates its step count
  std::vector<double> started_;         // the last initial values that were written
  bool values_set_ = false;             // set() replaced the initial values
};

}  // namespace jitstep
