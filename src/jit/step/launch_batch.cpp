#include "jit/step/launch_batch.h"

#include <algorithm>
#include <atomic>

namespace jitstep::jit {
namespace {

std::atomic<std::uint64_t> launched = 0;

// The first pass after all sums over all tensors and all host transforms. From it on, no tensor reads results of
// others.
int first_independent_pass(const Plan& plan) {
  int first = plan.transform_passes.empty() ? 0 : plan.transform_passes.back();
  for (const ResolvedReduction& r : plan.reductions)
    if (r.active() && r.is_global) first = std::max(first, r.pass + 1);
  return first;
}

// Ranges of consecutive tensors with at most so many elements, or of one tensor. Returns the end of each range.
std::vector<int> cache_blocks(const std::vector<TensorRecord>& tensors, std::int64_t most) {
  std::vector<int> ends;
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (elements > 0 && elements + tensors[i].n > most) {
      ends.push_back(static_cast<int>(i));
      elements = 0;
    }
    elements += tensors[i].n;
  }
  ends.push_back(static_cast<int>(tensors.size()));
  return ends;
}

}  // namespace

std::uint64_t launch_count() { return launched; }

void launch(Launches& launches, int entry, const Args& args, bool backwards) {
  if (args.item_count == 0) return;
  if (backwards)
    launches.launch_backwards(entry, args);
  else
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
  const std::int64_t cached = backend.cached_elements();
  first_blocked_pass_ = cached == 0 || has_parts() ? plan.passes : first_independent_pass(plan);
  if (first_blocked_pass_ < plan.passes) cache_block_ends_ = cache_blocks(tables_.tensors, cached);
  kernel_ = backend.load(source.text, source.name);
  launches_ = backend.launches(kernel_, source.entries, config);
  entries_ = source.index;
  partials_.resize(static_cast<std::size_t>(plan.passes));
  finalize_.resize(partials_.size());
  send_items([](const StepTables::Items& all) { return all; });
  tensors_.send(backend, tables_.tensors);
  if (has_parts()) parts_.send(backend, tables_.parts);
  args_.tensors = tensors_.data();
  args_.tensor_count = static_cast<int>(tensors.size());
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

template <class Selection>
void LaunchBatch::send_items(const Selection& select) {
  for (std::size_t pass = 0; pass < partials_.size(); ++pass) {
    partials_[pass].send(backend_, select(tables_.partials[pass]));
    finalize_[pass].send(backend_, select(tables_.finalize[pass]));
  }
  apply_.send(backend_, select(tables_.apply));
}

// The item of a sum over all tensors belongs to no tensor. It is excluded only if all tensors are inactive.
void LaunchBatch::exclude_inactive(const StepInput* inputs) {
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

void LaunchBatch::set_inputs(const StepRecord* steps, const HyperParams* hyper_params) {
  args_.steps = steps;
  args_.hyper_params = hyper_params;
}

bool LaunchBatch::wait_for_last_step() {
  if (!launches_->wait_for_last_step()) return false;
  tensors_.record_stream(backend_);
  if (has_parts()) parts_.record_stream(backend_);
  apply_.record_stream(backend_);
  for (const auto* items : {&partials_, &finalize_})
    for (const Items& pass : *items) pass.record_stream(backend_);
  for (const DeviceBuffer& buffer : buffers_) buffer.record_stream(backend_);
  return true;
}

void LaunchBatch::launch_partials(int pass) {
  const auto at = static_cast<std::size_t>(pass);
  if (pass < first_blocked_pass_)
    launch(entries_.partials[at], partials_[at], has_parts() ? parts_ : tensors_);
}

void LaunchBatch::launch_finalize(int pass) {
  const auto at = static_cast<std::size_t>(pass);
  if (pass < first_blocked_pass_) launch(entries_.finalize[at], finalize_[at]);
}

void LaunchBatch::launch_host_transform(int transform) {
  if (transform < transforms())
    launch(entries_.host_transforms[static_cast<std::size_t>(transform)], apply_);
}

// Each pass visits the elements in the opposite order of the pass before, so that it begins with those in the cache.
void LaunchBatch::launch_apply() {
  if (first_blocked_pass_ >= plan_.passes) return launch(entries_.apply, apply_);
  int first = 0;
  for (const int end : cache_block_ends_) {
    bool backwards = false;
    for (auto pass = static_cast<std::size_t>(first_blocked_pass_); pass < partials_.size();
         ++pass) {
      launch(entries_.partials[pass], partials_[pass], first, end, backwards);
      launch(entries_.finalize[pass], finalize_[pass], first, end, false);
      backwards = !backwards;
    }
    launch(entries_.apply, apply_, first, end, backwards);
    first = end;
  }
}

void LaunchBatch::launch_mode_switch(Mode to) {
  const int entry = to == Mode::eval ? entries_.eval : entries_.train;
  if (entry >= 0) launch(entry, apply_);
}

void LaunchBatch::launch(int entry, const Items& items) { launch(entry, items, tensors_); }

void LaunchBatch::launch(int entry, const Items& items, const Tensors& tensors) {
  args_.tensors = tensors.data();
  args_.items = items.data();
  args_.item_count = items.size();
  jit::launch(*launches_, entry, args_);
}

// Launches the items of tensors `first` to `end` - 1. Items have the order of tensors, except for those of sums over
// all tensors.
void LaunchBatch::launch(int entry, const Items& items, int first, int end, bool backwards) {
  const auto index_of = [&](int tensor) {
    const std::vector<Item>& all = items.values();
    return std::partition_point(all.begin(), all.end(),
                                [&](const Item& item) { return item.tensor < tensor; }) -
           all.begin();
  };
  args_.tensors = tensors_.data();
  args_.items = items.data() + index_of(first);
  args_.item_count = items.data() + index_of(end) - args_.items;
  jit::launch(*launches_, entry, args_, backwards);
}

}  // namespace jitstep::jit
