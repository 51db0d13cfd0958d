// Sums of gradients, for the package's GradAccumulator.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "exchange.h"
#include "jitstep/jit/step.h"

namespace jitstep::python {

/// Adds gradients to sums, in one launch for all of a device that share a kernel. Reuses its tables if it gets the same
/// sums, with gradients of the same form, as in the call before. One thread at a time may use it.
class GradientSums {
 public:
  /// `stochastic`: how 16-bit sums are rounded. `seed`: of the random bits.
  GradientSums(bool stochastic, std::uint64_t seed);
  GradientSums(const GradientSums&) = delete;
  GradientSums& operator=(const GradientSums&) = delete;

  /// `additions`: tuples of a parameter's number, its sum and its gradient. `t`: the number of the backward, from 1,
  /// which selects the random bits. Throws an Error or TypeError, before any sum changes, for a gradient that does not
  /// fit its sum.
  void add(const nb::list& additions, std::int64_t t);

 private:
  struct Row {
    Device device;
    jit::StepTensor tensor;
    jit::Dtype sum, gradient;
    const void* g;
    std::size_t device_index = 0, input = 0;  // in the tables

    bool has_tables_of(const Row& other) const;
  };
  struct DeviceSums {
    Device device;
    std::vector<jit::Batch> batches = {};
    std::vector<jit::StepInput> inputs = {};
    std::optional<jit::Step> step = {};
  };
  static Row read_row(nb::handle addition);
  DeviceSums& device_of(Row& row);
  std::size_t batch_of(const Row& row, std::vector<jit::Batch>& batches) const;
  void make_tables();

  bool stochastic_;
  HyperParams params_;
  std::vector<Row> rows_;  // of the tables
  std::vector<DeviceSums> devices_;
  bool ready_ = false, running_ = false;
};

}  // namespace jitstep::python
