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

LaunchBatch::LaunchBatch(Backend& backend, const Plan& plan, const KernelConfig& config,
                         const Unit& source, const std::vector<StepTensor>& tensors,
                         const SharedState* shared_state)
    : backend_(backend), plan_(plan) {
  tables_ = step_tables(tensors, plan.reductions, plan.passes, config);
  for (auto* const records : {&tables_.tensors, &tables_.parts})
    for (const ResolvedAuxState& field : plan.shared_state)
      for (TensorRecord& tensor : *records)
        for (const int half : {0, 1})
          tensor.aux[field.number][half] = shared_state->buffers[half] + field.index;
  kernel_ = backend.load(source.text, source.name);
  launches_ = backend.launches(kernel_, source.entries, config);
  entries_ = source.index;
  partials_.resize(static_cast<std::size_t>(plan.passes));
  finish_.resize(partials_.size());
  send_items([](const StepTables::Items& all) { return all; });
  tensors_.send(backend, tables_.tensors);
  if (has_parts()) parts_.send(backend, tables_.parts);
  args_.tensors = tensors_.data();
  for (const auto& reduction : plan.reductions)
    if (reduction.active()) add_buffers(reduction);
}

void LaunchBatch::add_buffers(const ResolvedReduction& r) {
  ReductionRecord& record = args_.reductions[r.number];
  const auto buffer = [&](std::int64_t bytes) {
    buffers_.emplace_back().reserve(backend_, static_cast<std::size_t>(bytes));
    return buffers_.back().data();
  };
  record.partials = static_cast<double*>(buffer(tables_.partial_count[r.reduction_layout] *
                                                r.terms * static_cast<int>(sizeof(double))));
  if (!r.is_global)
    record.coefficients =
        buffer(tables_.entries[r.reduction_layout] * std::max(r.coefficient_bytes, 1));
}

template <class Chosen>
void LaunchBatch::send_items(const Chosen& chosen) {
  for (std::size_t pass = 0; pass < partials_.size(); ++pass) {
    partials_[pass].send(backend_, chosen(tables_.partials[pass]));
    finish_[pass].send(backend_, chosen(tables_.finish[pass]));
  }
  apply_.send(backend_, chosen(tables_.apply));
}

// The item of a sum over all tensors belongs to no tensor. It is excluded only if all tensors are inactive.
void LaunchBatch::choose(const StepInput* inputs) {
  const bool any = std::any_of(inputs, inputs + tensors().size(),
                               [](const StepInput& input) { return !input.inactive; });
  send_items([&](const StepTables::Items& all) {
    StepTables::Items items;
    items.reserve(all.size());
    for (const Item& item : all)
      if (item.reduction_layout == kGlobalLayout ? any : !inputs[item.tensor].inactive)
        items.push_back(item);
    return items;
  });
}

void LaunchBatch::set_inputs(const StepRecord* steps, const HyperParams* hyper_params,
                             int hyper_params_count) {
  args_.steps = steps;
  args_.hyper_params = hyper_params;
  args_.hyper_params_count = hyper_params_count;
}

bool LaunchBatch::wait_for_last_step() {
  if (!launches_->wait_for_last_step()) return false;
  tensors_.record_stream(backend_);
  if (has_parts()) parts_.record_stream(backend_);
  apply_.record_stream(backend_);
  for (const auto* items : {&partials_, &finish_})
    for (const Items& pass : *items) pass.record_stream(backend_);
  for (const DeviceBuffer& buffer : buffers_) buffer.record_stream(backend_);
  return true;
}

void LaunchBatch::launch_partials(int pass) {
  const auto at = static_cast<std::size_t>(pass);
  if (pass >= plan_.passes) return;
  if (has_parts()) args_.tensors = parts_.data();
  launch(entries_.partials[at], partials_[at]);
  args_.tensors = tensors_.data();
}

void LaunchBatch::launch_finalize(int pass) {
  const auto at = static_cast<std::size_t>(pass);
  if (pass < plan_.passes) launch(entries_.finalize[at], finish_[at]);
}

void LaunchBatch::launch_host_transform(int transform) {
  if (transform < transforms())
    launch(entries_.host_transforms[static_cast<std::size_t>(transform)], apply_);
}

void LaunchBatch::launch_apply() { launch(entries_.apply, apply_); }

void LaunchBatch::launch_mode_switch(Mode to) {
  const int entry = to == Mode::eval ? entries_.eval : entries_.train;
  if (entry >= 0) launch(entry, apply_);
}

void LaunchBatch::launch(int entry, const Items& items) {
  args_.items = items.data();
  args_.item_count = items.size();
  jit::launch(*launches_, entry, args_);
}

}  // namespace jitstep::jit
