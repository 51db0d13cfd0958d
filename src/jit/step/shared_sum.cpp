#include "jit/step/shared_sum.h"

#include <algorithm>

namespace jitstep::jit {
namespace {

std::int64_t most_partials(const std::vector<AllRecord>& records) {
  std::int64_t most = 0;
  for (const AllRecord& record : records) most = std::max<std::int64_t>(most, record.count);
  return most;
}

int ids_of(const std::vector<AllRecord>& records) {
  int ids = 0;
  for (const AllRecord& record : records) ids = std::max(ids, record.id + 1);
  return ids;
}

}  // namespace

SharedSum::SharedSum(Machine& machine, const SumName& name, std::vector<LaunchBatch>& batches)
    : name_(name) {
  std::size_t count = 0;
  int terms = 1;
  for (std::size_t batch = 0; batch < batches.size(); ++batch) {
    if (const PlannedReduction* const r = find_sum(batches[batch].plan(), name)) {
      terms = r->terms;
      takers_.push_back(
          {batch, count, r->number, r->space, terms, std::max(r->coefficient_bytes, 1)});
    }
    count += batches[batch].tensors().size();
  }
  const std::vector<AllRecord> records = records_of(batches, std::vector<StepInput>(count));
  const int ids = ids_of(records);
  const std::int64_t roots = (static_cast<std::int64_t>(ids) + kLeaf - 1) / kLeaf * kLeaf;
  work_.reserve(machine, (roots + most_partials(records)) * terms * sizeof(double));
  for (const Taker& taker : takers_) {
    ReductionRecord& record = batches[taker.batch].reduction(taker.number);
    record.all_ids = ids;
    record.work = static_cast<double*>(work_.data());
  }
  send(machine, batches, records);
}

// What a batch adds to a sum: the partials of its tensors.
std::vector<AllRecord> SharedSum::records_of(const std::vector<LaunchBatch>& batches,
                                             const std::vector<StepInput>& inputs) const {
  std::vector<AllRecord> records;
  for (const Taker& taker : takers_) {
    const LaunchBatch& batch = batches[taker.batch];
    double* const partials = batch.reduction(taker.number).partials;
    const StepInput* input = &inputs[taker.first];
    for (const TensorRecord& tensor : batch.tensors()) {
      const bool rests = (input++)->rests;
      if (rests || tensor.n == 0) continue;
      const Space& space =
          tensor.spaces[taker.space];  // of its elements, or of the entries that it takes
      records.push_back({partials + space.first_partial * taker.terms, space.leaves >> space.fold,
                         space.members, tensor.id, 0});
    }
  }
  return records;
}

void SharedSum::send(Machine& machine, std::vector<LaunchBatch>& batches,
                     const std::vector<AllRecord>& records) {
  tensors_.send(machine, records);
  for (const Taker& taker : takers_) {
    ReductionRecord& record = batches[taker.batch].reduction(taker.number);
    record.all = tensors_.data();
    record.all_count = static_cast<int>(records.size());
  }
}

void SharedSum::choose(Machine& machine, std::vector<LaunchBatch>& batches,
                       const std::vector<StepInput>& inputs) {
  send(machine, batches, records_of(batches, inputs));
}

void SharedSum::reserve_coefficients(Machine& machine, std::vector<LaunchBatch>& batches,
                                     int set_count) {
  for (Taker& taker : takers_) {
    taker.coefficients.reserve(machine, static_cast<std::size_t>(set_count) * taker.bytes);
    batches[taker.batch].reduction(taker.number).coefficients = taker.coefficients.data();
  }
}

void SharedSum::record_stream(Machine& machine) const {
  tensors_.record_stream(machine);
  work_.record_stream(machine);
  for (const Taker& taker : takers_) taker.coefficients.record_stream(machine);
}

std::vector<SharedSum> shared_sums(Machine& machine, std::vector<LaunchBatch>& batches) {
  std::vector<SharedSum> sums;
  for (const LaunchBatch& batch : batches)
    for (const SumName& name : sums_of(batch.plan())) {
      const auto same = [&](const SharedSum& sum) { return sum.name() == name; };
      if (std::none_of(sums.begin(), sums.end(), same)) sums.emplace_back(machine, name, batches);
    }
  return sums;
}

}  // namespace jitstep::jit
