// Measures the tensors of parameters and their state for a MemoryReport.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "jitstep/jit/manifest.h"
#include "jitstep/reports.h"
#include "optim/state/state_buffers.h"

namespace jitstep {

/// Makes the entries of a report. Counts the bytes of tensors, without those that were counted before.
class MemoryMeasure {
 public:
  using Kind = MemoryReport::Kind;
  using Entries = std::vector<MemoryReport::Entry>;

  /// The state of a parameter.
  struct StateView {
    const StateBuffers& buffers;
    const std::vector<jit::Slot>& slots;  // declared by its rule
  };

  /// The entries of a parameter. `state`: null if it has no state.
  Entries parameter(const torch::Tensor& p, const StateView* state);
  void add_state(Entries& entries, const StateView& state);
  /// A copy in host memory of a parameter or gradient on a GPU.
  void add_host_copy(Entries& entries, Kind kind, const torch::Tensor& copy);
  /// An undefined tensor adds no entry.
  void add(Entries& entries, Kind kind, const std::string& name, const std::string& format,
           const torch::Tensor& tensor);

 private:
  std::int64_t bytes_of(const torch::Tensor& tensor);

  std::map<const void*, std::int64_t> left_;  // bytes of a storage that are not counted yet
  std::set<std::tuple<const void*, std::int64_t, std::int64_t>> seen_;
};

}  // namespace jitstep
