// The launches of a prepared step.
#include <algorithm>

#include "jit/step/step_state.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {

// The sums of a pass that other parts have terms of, in the order of ids and then of reductions.
std::vector<PartialSums> Step::State::partials_of(int pass) const {
  std::vector<PartialSums> partials;
  const char* skipped = inactive.data();
  for (const LaunchBatch& batch : batches)
    for (std::size_t i = 0; i < batch.tensors().size(); ++i) {
      const TensorRecord& tensor = batch.tensors()[i];
      if (*skipped++ || !batch.is_part(i)) continue;
      for (const ResolvedReduction& r : batch.plan().reductions) {
        if (r.pass != pass || r.reduction_layout != 0) continue;
        const ReductionLayout& layout = tensor.reduction_layouts[0];
        partials.push_back({tensor.id,
                            batch.reduction(r.number).partials + layout.first_partial * r.terms,
                            layout.leaves >> layout.log2_leaves, r.terms,
                            std::int64_t{kLeaf} << layout.log2_leaves});
      }
    }
  std::stable_sort(partials.begin(), partials.end(),
                   [](const PartialSums& a, const PartialSums& b) { return a.id < b.id; });
  return partials;
}

void Step::State::check_exchange() const {
  const auto sums_parts = [](const LaunchBatch& batch) {
    return batch.has_parts() && batch.plan().passes > 0;
  };
  if (!exchange && std::any_of(batches.begin(), batches.end(), sums_parts))
    throw Error(
        "cannot step parts of tensors: the kernels need sums over whole tensors. Call "
        "Step::set_exchange() first.");
}

void Step::State::launch_sums() {
  for (int pass = 0; pass < passes; ++pass) {
    for (LaunchBatch& batch : batches) batch.launch_partials(pass);
    if (const auto partials = partials_of(pass); !partials.empty()) exchange(partials);
    for (LaunchBatch& batch : batches) batch.launch_finalize(pass);
  }
}

void Step::State::launch_host_transform(const HostTransform& transform) {
  for (LaunchBatch& batch : batches) batch.launch_host_transform();
  std::vector<TransformedTensor> transformed;
  for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor)
    if (void* const values = device_tables().transformed.all()[tensor])
      transformed.push_back({tensor, values});
  transform(transformed);
}

void Step::State::finish_step() {
  for (LaunchBatch& batch : batches) batch.launch_apply();
  if (!capturing) live.transformed.release();
  if (counter) {
    counter->launch(device_tables().steps.data(), records.size(),
                    device_tables().hyper_params.data(), has_writer);
  } else if (has_writer) {
    ++shared_state->steps;
  }
}

}  // namespace jitstep::jit
