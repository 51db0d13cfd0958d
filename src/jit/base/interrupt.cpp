#include "jit/base/interrupt.h"

#include <utility>

namespace jitstep::jit {
namespace {

std::atomic<bool (*)()> host_check = nullptr;
thread_local const InterruptibleTasks* own_tasks = nullptr;

}  // namespace

void set_interrupt_check(bool (*check)()) { host_check = check; }

bool is_interrupted() {
  if (own_tasks != nullptr && own_tasks->is_interrupted()) return true;
  const auto check = host_check.load();
  return check != nullptr && check();
}

InterruptibleTasks::InterruptibleTasks() : outer_(own_tasks) {}

bool InterruptibleTasks::is_interrupted() const {
  return interrupted_ || (outer_ != nullptr && outer_->is_interrupted());
}

InterruptibleTasks::Member::Member(const InterruptibleTasks& tasks)
    : outer_(std::exchange(own_tasks, &tasks)) {}

InterruptibleTasks::Member::~Member() { own_tasks = outer_; }

}  // namespace jitstep::jit
