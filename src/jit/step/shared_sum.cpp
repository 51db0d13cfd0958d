#include "jit/step/shared_sum.h"

#include <algorithm>

#include "jit/base/integers.h"
#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

std::int64_t most_partials(const std::vector<AllRecord>& records) {
  std::int64_t most = 0;
  for (const AllRecord& record : records) most = std::max<std::int64_t>(most, record.count);
  return most;
}

// The sum adds in the order of ids.
int ids_of(const std::vector<AllRecord>& records) {
  int last = -1;
  for (const AllRecord& record : records) last = std::max(last, record.id);
  if (last >= kMaxTensorIds)
    throw Error(str_cat("a sum over all tensors needs ids below ", kMaxTensorIds,
                        ", and a tensor has ", last, ". Number the tensors from 0."));
  return last + 1;
}

}  // namespace

SharedSum::SharedSum(Backend& backend, const SumName& name, std::vector<LaunchBatch>& batches)
    : name_(name) {
  std::size_t count = 0;
  int terms = 1;
  for (std::size_t batch = 0; batch < batches.size(); ++batch) {
    if (const ResolvedReduction* const r = find_sum(batches[batch].plan(), name)) {
      terms = r->terms;
      participants_.push_back(
          {batch, count, r->number, r->reduction_layout, terms, std::max(r->coefficient_bytes, 1)});
    }
    count += batches[batch].tensors().size();
  }
  const std::vector<AllRecord> records = records_of(batches, std::vector<StepInput>(count));
  const int ids = ids_of(records);
  const std::int64_t roots = round_up(static_cast<std::int64_t>(ids), kLeaf);
  work_.reserve(backend, (roots + most_partials(records)) * terms * sizeof(double));
  for (const Participant& one : participants_) {
    ReductionRecord& record = batches[one.batch].reduction(one.number);
    record.all_ids = ids;
    record.work = static_cast<double*>(work_.data());
  }
  send(backend, batches, records);
}

// The partial sums of all batches. Each active tensor with elements has one record.
std::vector<AllRecord> SharedSum::records_of(const std::vector<LaunchBatch>& batches,
                                             const std::vector<StepInput>& inputs) const {
  std::vector<AllRecord> records;
  for (const Participant& one : participants_) {
    const LaunchBatch& batch = batches[one.batch];
    double* const partials = batch.reduction(one.number).partials;
    for (std::size_t i = 0; i < batch.tensors().size(); ++i) {
      const TensorRecord& tensor = batch.tensors()[i];
      if (inputs[one.first + i].inactive || batch.elements(i) == 0) continue;
      // The layout over the tensor's elements or, for a nested reduction, over the entries of its source.
      const ReductionLayout& reduction_layout = tensor.reduction_layouts[one.reduction_layout];
      records.push_back({partials + reduction_layout.first_partial * one.terms,
                         reduction_layout.leaves >> reduction_layout.log2_leaves,
                         reduction_layout.members, tensor.id, 0});
    }
  }
  return records;
}

void SharedSum::send(Backend& backend, std::vector<LaunchBatch>& batches,
                     const std::vector<AllRecord>& records) {
  tensors_.send(backend, records);
  for (const Participant& one : participants_) {
    ReductionRecord& record = batches[one.batch].reduction(one.number);
    record.all = tensors_.data();
    record.all_count = static_cast<int>(records.size());
  }
}

void SharedSum::exclude_inactive(Backend& backend, std::vector<LaunchBatch>& batches,
                                 const std::vector<StepInput>& inputs) {
  send(backend, batches, records_of(batches, inputs));
}

void SharedSum::reserve_coefficients(Backend& backend, std::vector<LaunchBatch>& batches,
                                     int hyper_params_count) {
  for (Participant& one : participants_) {
    one.coefficients.reserve(backend, static_cast<std::size_t>(hyper_params_count) * one.bytes);
    batches[one.batch].reduction(one.number).coefficients = one.coefficients.data();
  }
}

void SharedSum::record_stream(Backend& backend) const {
  tensors_.record_stream(backend);
  work_.record_stream(backend);
  for (const Participant& one : participants_) one.coefficients.record_stream(backend);
}

std::vector<SharedSum> shared_sums(Backend& backend, std::vector<LaunchBatch>& batches) {
  std::vector<SharedSum> sums;
  for (const LaunchBatch& batch : batches)
    for (const SumName& name : sums_of(batch.plan())) {
      const auto same = [&](const SharedSum& sum) { return sum.name() == name; };
      if (std::none_of(sums.begin(), sums.end(), same)) sums.emplace_back(backend, name, batches);
    }
  return sums;
}

}  // namespace jitstep::jit
