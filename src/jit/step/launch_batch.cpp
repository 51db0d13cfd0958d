#include "jit/step/launch_batch.h"

#include <algorithm>
#include <atomic>

namespace jitstep::jit {
namespace {

std::atomic<std::uint64_t> launched = 0;

}  // namespace

std::uint64_t launch_count() { return launched; }

void launch(Launches& launches, int entry, const Args& args) {
  if (args.item_count == 0) return;
  launches.launch(entry, args);
  ++launched;
}

LaunchBatch::LaunchBatch(Machine& machine, const Plan& plan, const Variant& variant,
                         const Unit& source, const std::vector<StepTensor>& tensors,
                         const CommonMemory* common)
    : machine_(machine), plan_(plan) {
  tables_ = step_tables(tensors, plan.reductions, plan.passes, variant);
  for (const PlannedMemory& field : plan.common)
    for (TensorRecord& tensor : tables_.tensors)
      for (const int half : {0, 1})
        tensor.memory[field.number][half] = common->halves[half] + field.place;
  kernel_ = machine.load(source.text, source.name);
  launches_ = machine.launches(kernel_, source.entries, variant);
  partials_.resize(static_cast<std::size_t>(plan.passes));
  finish_.resize(partials_.size());
  send_items([](const StepTables::Items& all) { return all; });
  tensors_.send(machine, tables_.tensors);
  args_.tensors = tensors_.data();
  for (const auto& reduction : plan.reductions)
    if (reduction.taken()) add_buffers(reduction);
}

void LaunchBatch::add_buffers(const PlannedReduction& r) {
  ReductionRecord& record = args_.reductions[r.number];
  const auto buffer = [&](std::int64_t bytes) {
    buffers_.emplace_back().reserve(machine_, static_cast<std::size_t>(bytes));
    return buffers_.back().data();
  };
  record.partials = static_cast<double*>(
      buffer(tables_.partial_count[r.space] * r.terms * static_cast<int>(sizeof(double))));
  if (!r.everywhere)
    record.coefficients = buffer(tables_.entries[r.space] * std::max(r.coefficient_bytes, 1));
}

template <class Chosen>
void LaunchBatch::send_items(const Chosen& chosen) {
  for (std::size_t pass = 0; pass < partials_.size(); ++pass) {
    partials_[pass].send(machine_, chosen(tables_.partials[pass]));
    finish_[pass].send(machine_, chosen(tables_.finish[pass]));
  }
  apply_.send(machine_, chosen(tables_.apply));
}

// The item of a sum over all tensors belongs to none of them, and is left out with the last.
void LaunchBatch::choose(const StepInput* inputs) {
  const bool any = std::any_of(inputs, inputs + tensors().size(),
                               [](const StepInput& input) { return !input.rests; });
  send_items([&](const StepTables::Items& all) {
    StepTables::Items items;
    items.reserve(all.size());
    for (const Item& item : all)
      if (item.space == kAllSpace ? any : !inputs[item.tensor].rests) items.push_back(item);
    return items;
  });
}

void LaunchBatch::set_inputs(const StepRecord* steps, const HyperSet* sets, int set_count) {
  args_.steps = steps;
  args_.sets = sets;
  args_.set_count = set_count;
}

bool LaunchBatch::wait_for_last_step() {
  if (!launches_->wait_for_last_step()) return false;
  tensors_.record_stream(machine_);
  apply_.record_stream(machine_);
  for (const auto* items : {&partials_, &finish_})
    for (const Items& pass : *items) pass.record_stream(machine_);
  for (const DeviceBuffer& buffer : buffers_) buffer.record_stream(machine_);
  return true;
}

void LaunchBatch::launch_partials(int pass) {
  if (pass < plan_.passes) launch(2 * pass, partials_[static_cast<std::size_t>(pass)]);
}

void LaunchBatch::launch_finish(int pass) {
  if (pass < plan_.passes) launch(2 * pass + 1, finish_[static_cast<std::size_t>(pass)]);
}

int LaunchBatch::apply_entry() const {
  return 2 * plan_.passes + (plan_.rule().host_stage.empty() ? 0 : 1);
}

void LaunchBatch::launch_stage() {
  if (!plan_.rule().host_stage.empty()) launch(apply_entry() - 1, apply_);
}

void LaunchBatch::launch_apply() { launch(apply_entry(), apply_); }

void LaunchBatch::launch_turn(Mode to) {
  if (plan_.rule().modes) launch(apply_entry() + (to == Mode::eval ? 1 : 2), apply_);
}

void LaunchBatch::launch(int entry, const Items& items) {
  args_.items = items.data();
  args_.item_count = items.size();
  jit::launch(*launches_, entry, args_);
}

}  // namespace jitstep::jit
