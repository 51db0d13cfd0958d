// What a rule keeps once for a whole optimizer (Memory of domain `all`), as a torch tensor.
#pragma once

#include <torch/types.h>

#include <optional>
#include <string>
#include <vector>

#include "jitstep/jit/manifest.h"
#include "jitstep/jit/shared_state.h"

namespace jitstep {

/// The names of a rule's fields of domain `all`, in the order of declaration.
std::vector<std::string> shared_names(const jit::Manifest& rule);

/// The place of one of them, by its name or torch's. A c10::Error that lists them if there is none.
std::size_t shared_index(const jit::Manifest& rule, const std::string& name);

/// Copies are not meant: kernels know where it lies.
class SharedStateTensors {
 public:
  SharedStateTensors() = default;
  SharedStateTensors(const SharedStateTensors&) = delete;
  SharedStateTensors& operator=(const SharedStateTensors&) = delete;

  /// Brings it to a device before a step. What no step and no user has changed yet is set to `initial`.
  void bind(const torch::Device& device, const std::vector<double>& initial);

  /// As a step takes it; null for a rule that keeps nothing.
  jit::SharedState* aux_state() { return buffers_.defined() ? &aux_state_ : nullptr; }
  /// What it holds: two halves of its values, and a counter of the device; undefined while there is none.
  const torch::Tensor& buffers() const { return buffers_; }
  const torch::Tensor& step_offset() const { return step_offset_; }
  /// Has the device count the steps that it skips, before one that it may.
  void count_skips();
  /// Has the device count all steps, or the host again, which waits for the device.
  void count_on_device(bool on);
  bool is_on_device() const { return on_device_; }

  /// The current values, on the host; nothing before the first step, unless they were set.
  std::optional<std::vector<double>> values() const;
  /// Replaces them; the next step goes on from these.
  void set(const std::vector<double>& values);
  /// Forgets everything: the next step starts anew.
  void clear();

  /// Whether a step has been taken since it was made, set or cleared. Waits for the device if it may have
  /// skipped some, as everything does that reads values.
  bool has_stepped() const { return steps() > 0; }

 private:
  void write(const std::vector<double>& values);
  std::int64_t steps() const;
  void attach(std::int64_t step_offset);
  void restart();

  torch::Tensor buffers_;              // [2, fields]
  mutable torch::Tensor step_offset_;  // of the device; undefined: it skips none
  bool on_device_ = false;  // which counts all steps; `memory_.steps` stays as it is then
  mutable jit::SharedState
      aux_state_;                // mutable: its steps are brought up to date when somebody asks
  std::vector<double> started_;  // what was last written as the initial values
  bool given_ = false;           // its values are not the initial ones
};

}  // namespace jitstep
