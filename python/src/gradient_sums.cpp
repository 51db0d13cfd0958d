#include "gradient_sums.h"

#include <algorithm>
#include <string>

#include "backends.h"
#include "flag.h"
#include "jit/codegen/gradient_sum.h"
#include "jit/step/batch_numbers.h"
#include "jitstep/jit/error.h"
#include "plan.h"

namespace jitstep::python {
namespace {

[[noreturn]] void throw_error(int number, const std::string& cause) {
  throw jit::Error("cannot add the gradient of parameter " + std::to_string(number) + ": " + cause);
}

}  // namespace

GradientSums::GradientSums(bool stochastic, std::uint64_t seed)
    : stochastic_(stochastic), params_(jit::gradient_sum_params(seed)) {}

bool GradientSums::Row::has_tables_of(const Row& other) const {
  return device == other.device && tensor.id == other.tensor.id && tensor.p == other.tensor.p &&
         tensor.shape == other.tensor.shape && tensor.g_strides == other.tensor.g_strides &&
         sum == other.sum && gradient == other.gradient;
}

GradientSums::Row GradientSums::read_row(nb::handle addition) {
  const int number = nb::cast<int>(addition[0]);
  const TensorView sum = read(addition[1]), gradient = read(addition[2]);
  if (!sum.dtype || !gradient.dtype || !sum.device.is_supported() ||
      sum.device != gradient.device || sum.is_complex != gradient.is_complex)
    throw_error(number, "its dtype or device is not supported. Use " +
                            std::string(jit::kDtypeList) + " on the CPU or an NVIDIA GPU.");
  if (sum.shape().sizes != gradient.shape().sizes)
    throw_error(number, "it has another shape than the sum. Call reset() after parameters change.");
  Row row{sum.device, {}, *sum.dtype, *gradient.dtype, gradient.data};
  row.tensor.p = sum.data;
  row.tensor.shape = sum.shape();
  row.tensor.g_strides = gradient.shape().strides;
  row.tensor.id = number;
  return row;
}

GradientSums::DeviceSums& GradientSums::device_of(Row& row) {
  const auto known = std::find_if(devices_.begin(), devices_.end(),
                                  [&](const DeviceSums& one) { return one.device == row.device; });
  row.device_index = static_cast<std::size_t>(known - devices_.begin());
  return known != devices_.end() ? *known : devices_.emplace_back(DeviceSums{row.device});
}

// The index of the batch with the kernel of a row.
std::size_t GradientSums::batch_of(const Row& row, std::vector<jit::Batch>& batches) const {
  jit::KernelSpec spec = jit::gradient_sum_plan(row.sum, stochastic_).spec;
  spec.gradient = row.gradient;
  spec.strided = is_strided(row.tensor);
  const jit::Plan plan = jit::resolve(spec);
  const auto found = std::find_if(batches.begin(), batches.end(), [&](const jit::Batch& batch) {
    return batch.plan.spec == plan.spec;
  });
  const auto index = static_cast<std::size_t>(found - batches.begin());
  if (found == batches.end()) batches.push_back({plan, {}});
  return index;
}

void GradientSums::make_tables() {
  for (DeviceSums& device : devices_)
    if (device.step && !device.device.is_cpu()) device.step->wait_for_last_step();
  ready_ = false;
  devices_.clear();
  std::vector<std::size_t> batch_of_row;
  for (Row& row : rows_) {
    auto& batches = device_of(row).batches;
    batch_of_row.push_back(batch_of(row, batches));
    auto& tensors = batches[batch_of_row.back()].tensors;
    row.input = tensors.size();
    tensors.push_back(row.tensor);
  }
  std::vector<std::vector<std::size_t>> first;  // by device and batch
  for (DeviceSums& device : devices_)
    device.inputs.resize(first.emplace_back(jit::first_numbers(device.batches)).back());
  for (std::size_t i = 0; i < rows_.size(); ++i)
    rows_[i].input += first[rows_[i].device_index][batch_of_row[i]];
  const nb::gil_scoped_release release;
  for (DeviceSums& device : devices_)
    device.step.emplace(backend_of(device.device), device.batches);
  ready_ = true;
}

void GradientSums::add(const nb::list& additions, std::int64_t t) {
  if (running_) throw jit::Error("a signal handler adds gradients during an addition. Add them after it.");
  const Flag running(running_);
  std::vector<Row> rows;
  for (nb::handle addition : additions) rows.push_back(read_row(addition));
  if (rows.empty()) return;
  const bool same =
      ready_ && std::equal(rows.begin(), rows.end(), rows_.begin(), rows_.end(),
                           [](const Row& a, const Row& b) { return a.has_tables_of(b); });
  if (!same) {
    rows_ = std::move(rows);
    make_tables();
  } else {
    for (std::size_t i = 0; i < rows.size(); ++i) rows_[i].g = rows[i].g;
  }
  for (const Row& row : rows_) {
    const auto bits =
        reinterpret_cast<std::uintptr_t>(row.tensor.p) | reinterpret_cast<std::uintptr_t>(row.g);
    devices_[row.device_index].inputs[row.input] = {.g = row.g, .aligned = bits % 16 == 0};
  }
  params_.t = t;
  const nb::gil_scoped_release release;
  for (const DeviceSums& device : devices_) check_not_capturing(device.device);
  for (DeviceSums& device : devices_) device.step->prepare(device.inputs, {params_});
  for (DeviceSums& device : devices_) device.step->launch();
}

}  // namespace jitstep::python
