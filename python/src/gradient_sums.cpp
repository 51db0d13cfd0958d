#include "gradient_sums.h"

#include <algorithm>
#include <string>

#include "backends.h"
#include "jit/codegen/gradient_sum.h"
#include "jitstep/jit/error.h"
#include "plan.h"

namespace jitstep::python {
namespace {

[[noreturn]] void refuse(int number, const std::string& cause) {
  throw jit::Error("cannot add the gradient of parameter " + std::to_string(number) + ": " + cause);
}

}  // namespace

GradientSums::GradientSums(bool stochastic, std::uint64_t seed)
    : stochastic_(stochastic), params_(jit::gradient_sum_params(seed)) {}

bool GradientSums::Row::has_tables_of(const Row& other) const {
  return tensor.id == other.tensor.id && tensor.p == other.tensor.p &&
         tensor.shape == other.tensor.shape && tensor.g_strides == other.tensor.g_strides &&
         sum == other.sum && gradient == other.gradient;
}

GradientSums::Row GradientSums::read_row(nb::handle addition) {
  const int number = nb::cast<int>(addition[0]);
  const TensorView sum = read(addition[1]), gradient = read(addition[2]);
  if (!sum.dtype || !gradient.dtype || !sum.is_cpu || !gradient.is_cpu ||
      sum.is_complex != gradient.is_complex)
    refuse(number, "its dtype or device is not supported. Use " + std::string(jit::kDtypeList) +
                       " on the CPU.");
  if (sum.shape().sizes != gradient.shape().sizes)
    refuse(number, "it has another shape than the sum. Call reset() after parameters change.");
  Row row{{}, *sum.dtype, *gradient.dtype, gradient.data};
  row.tensor.p = sum.data;
  row.tensor.shape = sum.shape();
  row.tensor.g_strides = gradient.shape().strides;
  row.tensor.id = number;
  return row;
}

void GradientSums::make_tables() {
  step_.reset();
  batches_.clear();
  std::vector<std::size_t> batch_of, index_of;
  for (const Row& row : rows_) {
    jit::KernelSpec spec = jit::gradient_sum_plan(row.sum, stochastic_).spec;
    spec.gradient = row.gradient;
    spec.strided = is_strided(row.tensor);
    const jit::Plan plan = jit::resolve(spec);
    auto found = std::find_if(batches_.begin(), batches_.end(), [&](const jit::Batch& batch) {
      return batch.plan.spec == plan.spec;
    });
    if (found == batches_.end()) found = batches_.insert(found, {plan, {}});
    batch_of.push_back(static_cast<std::size_t>(found - batches_.begin()));
    index_of.push_back(found->tensors.size());
    found->tensors.push_back(row.tensor);
  }
  std::vector<std::size_t> first(1, 0);
  for (const jit::Batch& batch : batches_) first.push_back(first.back() + batch.tensors.size());
  inputs_.clear();
  for (std::size_t i = 0; i < rows_.size(); ++i)
    inputs_.push_back(first[batch_of[i]] + index_of[i]);
  const nb::gil_scoped_release release;
  step_.emplace(cpu_backend(), batches_);
}

void GradientSums::add(nb::list additions, std::int64_t t) {
  std::vector<Row> rows;
  for (nb::handle addition : additions) rows.push_back(read_row(addition));
  if (rows.empty()) return;
  const bool same =
      step_ && std::equal(rows.begin(), rows.end(), rows_.begin(), rows_.end(),
                          [](const Row& a, const Row& b) { return a.has_tables_of(b); });
  rows_ = std::move(rows);
  if (!same) make_tables();
  std::vector<jit::StepInput> inputs(rows_.size());
  for (std::size_t i = 0; i < rows_.size(); ++i)
    inputs[inputs_[i]] = {.g = rows_[i].g, .aligned = true};
  params_.t = t;
  const nb::gil_scoped_release release;
  step_->run(inputs, {params_});
}

}  // namespace jitstep::python
