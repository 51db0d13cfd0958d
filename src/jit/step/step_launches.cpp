// The launches of a prepared step.
#include <algorithm>

#include "jit/step/step_state.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {

// The sums of a pass that other parts have terms of, in the order of ids and then of reductions.
std::vector<PartialSums> Step::State::partials_of(int pass, int section) const {
  std::vector<PartialSums> partials;
  std::size_t number = 0;  // of the tensor among those of all batches
  for (const LaunchBatch& batch : batches)
    for (std::size_t i = 0; i < batch.tensors().size(); ++i, ++number) {
      const TensorRecord& tensor = batch.tensors()[i];
      if (inactive[number] != 0 || !batch.is_part(i) || batch.section_of(pass) != section) continue;
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

// Launches the passes of each batch between two of its host transforms. Batches that share a sum compute it in the same
// pass and section.
void Step::State::launch_sums(int section) {
  for (int pass = 0; pass < passes; ++pass) {
    for (LaunchBatch& batch : batches)
      if (batch.section_of(pass) == section) batch.launch_partials(pass);
    const auto partials = partials_of(pass, section);
    if (!partials.empty()) exchange(partials);
    for (LaunchBatch& batch : batches)
      if (batch.section_of(pass) == section) batch.launch_finalize(pass);
  }
}

void Step::State::launch_host_transform(int number, const HostTransform& transform) {
  for (LaunchBatch& batch : batches) batch.launch_host_transform(number);
  std::vector<TransformedTensor> transformed;
  for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor)
    if (void* const values = device_tables().transformed.of(tensor)[number])
      transformed.push_back({tensor, values, number});
  transform(transformed);
}

void Step::State::finish_step() {
  if (transforms > 0) launch_sums(transforms);
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
