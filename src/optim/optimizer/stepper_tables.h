// The tables of a Stepper: its parameters by device, kernel and row.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <vector>

#include "optim/optimizer/step_hyper_params.h"
#include "optim/optimizer/stepper.h"

namespace jitstep {

/// What determines the kernel of a parameter.
struct KernelKey {
  const jit::Plan* plan;
  jit::Dtype gradient;
  bool strided;

  auto operator<=>(const KernelKey&) const = default;
};

/// All parameters of one device.
struct DeviceStep {
  torch::Device device;
  jit::Backend* backend;
  std::vector<jit::Batch> batches = {};
  std::vector<std::vector<ParameterName>> names = {};  // of each batch's tensors
  std::map<KernelKey, std::size_t> batch_of = {};
  std::optional<jit::Step> step = {};
  std::vector<jit::StepInput> inputs = {};    // in the order of batches; rows refer to them
  std::vector<const StepParam*> params = {};  // by input, of a step with transforms

  const jit::StepTensor& tensor(const TableRow& row) const {
    return batches[row.batch].tensors[row.index];
  }
};

/// Rows refer to one of these by its id. Not thread-safe.
struct Stepper::State {
  /// A number that no other tables have.
  static std::uint64_t new_id();

  std::uint64_t id = new_id();  // rows of other tables have another one
  std::vector<DeviceStep> devices;
  std::size_t rows = 0;                      // of all devices
  std::array<double*, 2> shared_state = {};  // addresses when the tables were built
  bool scaled = false;                       // the kernels divide by grad_scale
  StepHyperParams hyper_params;

  bool has_row(const StepParam& param) const {
    return param.row.tables == id && param.row.version == param.version;
  }
  DeviceStep& device_of(StepParam& param);
  std::size_t batch_of(DeviceStep& device, const KernelKey& key) const;
  void add(StepParam& param, jit::StepTensor tensor, const KernelKey& key);
  void add_active(StepParam& param);
  void add_inactive(StepParam& param, const State& last);
  void number_inputs(std::initializer_list<const std::vector<StepParam*>*> lists);
  bool set_inputs(const StepMembers& now, const StepExtras& extras, int ahead);
};

}  // namespace jitstep
