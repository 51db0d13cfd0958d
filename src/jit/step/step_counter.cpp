#include "jit/step/step_counter.h"

#include "jit/step/launch_batch.h"
#include "jitstep/jit/unit.h"

namespace jitstep::jit {
namespace {

constexpr int kThreads = 32;  // as templates/schedules/count.cuh has it

}  // namespace

StepCounter::StepCounter(Machine& machine) {
  const Unit unit = count_unit();
  kernel_ = machine.load(unit.text, unit.name);
  launches_ = machine.launches(kernel_, unit.entries, {.threads = kThreads});
}

void StepCounter::launch(const StepRecord* steps, std::size_t tensors, const HyperSet* sets,
                         bool common) {
  Args args{};
  args.steps = steps;
  args.sets = sets;
  args.item_count = static_cast<int64>(tensors);
  args.leader = common ? 0 : -1;
  jit::launch(*launches_, 0, args);
}

}  // namespace jitstep::jit
