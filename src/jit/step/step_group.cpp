#include "jitstep/jit/step_group.h"

#include <algorithm>
#include <cstring>

namespace jitstep::jit {

void StepGroup::Buffer::reserve(Machine& machine, std::size_t bytes) {
  if (memory && bytes <= capacity) return;
  memory = machine.allocate(std::max<std::size_t>(bytes, 1));
  capacity = bytes;
}

template <class T>
void StepGroup::DeviceTable<T>::send(Machine& machine, const std::vector<T>& values) {
  const std::size_t bytes = values.size() * sizeof(T);
  if (valid && sent.size() == values.size() &&
      (bytes == 0 || std::memcmp(sent.data(), values.data(), bytes) == 0))
    return;
  valid = false;  // until all went well
  buffer.reserve(machine, bytes);
  if (bytes > 0) machine.upload(buffer.memory.get(), values.data(), bytes);
  sent = values;
  valid = true;
}

StepGroup::StepGroup(Machine& machine, const Plan& plan, const Variant& variant,
                     const std::vector<StepTensor>& tensors)
    : machine_(machine), spec_(plan.spec), reductions_(plan.reductions) {
  const Unit source = unit(plan, variant, machine.target());
  tables_ = step_tables(tensors, reductions_, plan.passes, variant);
  kernel_ = machine.load(source.text, source.name);
  launches_ = machine.launches(kernel_, source.entries, variant.threads);
  partials_.resize(source.passes);
  finish_.resize(source.passes);
  for (int pass = 0; pass < source.passes; ++pass) {
    partials_[pass].entry = 2 * pass;
    finish_[pass].entry = 2 * pass + 1;
    partials_[pass].items.send(machine, tables_.partials[pass]);
    finish_[pass].items.send(machine, tables_.finish[pass]);
  }
  apply_.entry = 2 * source.passes;
  apply_.items.send(machine, tables_.apply);
  tensors_.send(machine, tables_.tensors);
  args_.tensors = tensors_.data();
  shared_sums_.resize(kMaxReductions);
  for (const auto& r : reductions_) {
    if (r.pass < 0) continue;
    ReductionRecord& record = args_.reductions[r.number];
    buffers_.push_back(machine.allocate(tables_.partial_count[r.space] * r.terms * sizeof(double)));
    record.partials = static_cast<double*>(buffers_.back().get());
    if (r.everywhere) continue;
    buffers_.push_back(
        machine.allocate(tables_.entries[r.space] * std::max(r.coefficient_bytes, 1)));
    record.coefficients = buffers_.back().get();
  }
}

template <class Visit>
void StepGroup::visit_memory(const Visit& visit) const {
  for (const Buffer* buffer :
       {&tensors_.buffer, &steps_.buffer, &sets_.buffer, &apply_.items.buffer})
    visit(buffer->memory);
  for (const auto* pass : {&partials_, &finish_})
    for (const Launch& launch : *pass) visit(launch.items.buffer.memory);
  for (const auto& buffer : buffers_) visit(buffer);
  for (const SharedSum& sum : shared_sums_)
    for (const Buffer* buffer : {&sum.tensors.buffer, &sum.work, &sum.coefficients})
      visit(buffer->memory);
}

void StepGroup::follow() {
  if (!launches_->follow()) return;
  visit_memory([&](const std::shared_ptr<void>& memory) {
    if (memory) machine_.share(memory);
  });
}

void StepGroup::prepare(const std::vector<StepInput>& inputs, const std::vector<HyperSet>& sets) {
  step_records_.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    step_records_[i] = {inputs[i].g, inputs[i].set,
                        tables_.layout[i] | (inputs[i].aligned ? kAligned : 0)};
  steps_.send(machine_, step_records_);
  sets_.send(machine_, sets);
  args_.steps = steps_.data();
  args_.sets = sets_.data();
  args_.set_count = static_cast<int>(sets.size());
}

void StepGroup::append_records(const PlannedReduction& r, std::vector<AllRecord>& records) const {
  const auto mine = std::find_if(reductions_.begin(), reductions_.end(),
                                 [&](const auto& own) { return own.number == r.number; });
  if (mine == reductions_.end() || mine->pass < 0 || !mine->everywhere) return;
  for (const TensorRecord& tensor : tables_.tensors) {
    if (tensor.n == 0) continue;
    const Space& space = tensor.spaces[0];
    records.push_back({args_.reductions[r.number].partials + space.first_partial * r.terms,
                       space.leaves >> space.fold, tensor.n, tensor.id, 0});
  }
}

// Where a sum over all tensors finds every group's partials, and room to add them up in.
void StepGroup::share_sum(const PlannedReduction& r, const std::vector<StepGroup*>& groups) {
  SharedSum& sum = shared_sums_[r.number];
  sum.records.clear();
  for (const StepGroup* group : groups) group->append_records(r, sum.records);
  std::int64_t ids = 0, most = 0;
  for (const AllRecord& record : sum.records) {
    ids = std::max<std::int64_t>(ids, record.id + 1);
    most = std::max<std::int64_t>(most, record.count);
  }
  args_.all_tensors = static_cast<int>(sum.records.size());
  args_.all_ids = static_cast<int>(ids);
  const std::int64_t padded = (ids + kLeaf - 1) / kLeaf * kLeaf;
  sum.tensors.send(machine_, sum.records);
  sum.work.reserve(machine_, (padded + most) * r.terms * sizeof(double));
  sum.coefficients.reserve(machine_, args_.set_count * std::max(r.coefficient_bytes, 1));
  ReductionRecord& record = args_.reductions[r.number];
  record.all = sum.tensors.data();
  record.work = static_cast<double*>(sum.work.memory.get());
  record.coefficients = sum.coefficients.memory.get();
}

void StepGroup::share_sums(const std::vector<StepGroup*>& groups) {
  for (const auto& r : reductions_)
    if (r.pass >= 0 && r.everywhere) share_sum(r, groups);
}

void StepGroup::launch(Launch& launch) {
  args_.items = launch.items.data();
  args_.item_count = static_cast<std::int64_t>(launch.items.sent.size());
  if (args_.item_count > 0) launches_->launch(launch.entry, args_);
}

void prepare_step(const std::vector<StepGroup*>& groups,
                  const std::vector<std::vector<StepInput>>& inputs,
                  const std::vector<HyperSet>& sets) {
  if (!groups.empty()) groups.front()->machine_.refuse_capture();
  for (StepGroup* group : groups) group->follow();
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i]->prepare(inputs[i], sets);
  for (StepGroup* group : groups) group->share_sums(groups);
}

void launch_step(const std::vector<StepGroup*>& groups) {
  std::size_t passes = 0;
  for (const StepGroup* group : groups) passes = std::max(passes, group->partials_.size());
  for (std::size_t pass = 0; pass < passes; ++pass) {
    for (StepGroup* group : groups)
      if (pass < group->partials_.size()) group->launch(group->partials_[pass]);
    for (StepGroup* group : groups)
      if (pass < group->finish_.size()) group->launch(group->finish_[pass]);
  }
  for (StepGroup* group : groups) group->launch(group->apply_);
  for (StepGroup* group : groups) group->launches_->mark();
}

void run_step(const std::vector<StepGroup*>& groups,
              const std::vector<std::vector<StepInput>>& inputs,
              const std::vector<HyperSet>& sets) {
  prepare_step(groups, inputs, sets);
  launch_step(groups);
}

}  // namespace jitstep::jit
