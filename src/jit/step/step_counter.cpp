#include "jit/step/step_counter.h"

#include "jit/codegen/unit.h"
#include "jit/step/launch_batch.h"

namespace jitstep::jit {
namespace {

constexpr int kThreads = 32;  // must equal Count::kThreads in templates/kernel/count.cuh

}  // namespace

StepCounter::StepCounter(Backend& backend) {
  const Unit unit = count_unit();
  kernel_ = backend.load(unit.text, unit.name);
  launches_ = backend.launches(kernel_, unit.entries, {.threads = kThreads});
}

void StepCounter::launch(const StepRecord* steps, std::size_t tensors,
                         const HyperParams* hyper_params, bool shared_state) {
  Args args{};
  args.steps = steps;
  args.hyper_params = hyper_params;
  args.item_count = static_cast<int64>(tensors);
  args.shared_state_writer = shared_state ? 0 : -1;
  jit::launch(*launches_, 0, args);
}

}  // namespace jitstep::jit
