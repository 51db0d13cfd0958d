#include "optim/optimizer/backward_watch.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <cstddef>

namespace jitstep {
namespace {

namespace autograd = torch::autograd;

// torch's API returns only one member of the GraphTask that runs in this thread. The GraphTask is found from that
// member's offset.
const autograd::GraphTask* current_task() {
  const auto* const exec_info = autograd::get_current_graph_task_exec_info();
  if (exec_info == nullptr) return nullptr;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
  constexpr std::size_t offset = offsetof(autograd::GraphTask, exec_info_);
#pragma GCC diagnostic pop
  const auto* const task = reinterpret_cast<const autograd::GraphTask*>(
      reinterpret_cast<const char*>(exec_info) - offset);
  // Another version of torch may return the address of something else.
  return static_cast<int>(task->id_) == autograd::get_current_graph_task_id() ? task : nullptr;
}

}  // namespace

// A callback for torch. It does nothing if the watch no longer exists.
template <class Call>
auto BackwardWatch::locked(Call call) {
  return [weak = weak_from_this(), call](auto&...) {
    const auto watch = weak.lock();
    if (!watch) return;
    const std::lock_guard lock(watch->mutex_);
    std::invoke(call, *watch);
  };
}

// The first gradient of a backward registers a callback for its end.
bool BackwardWatch::note_gradient() {
  const int now = autograd::get_current_graph_task_id();
  const bool is_other = std::exchange(last_task_, now) != now;
  if (tasks_.insert(now).second) await_end();
  return is_other;
}

// torch reveals the outer backward only after the inner one has ended.
void BackwardWatch::await_end() {
  const autograd::GraphTask* const task = current_task();
  if (task != nullptr && task->reentrant_depth_ > 0) {
    task->future_result_->addCallback(locked(&BackwardWatch::on_inner_end), /*uses_future=*/false);
  } else {
    ++outermost_;
    autograd::Engine::get_default_engine().queue_callback(locked(&BackwardWatch::end));
  }
}

// An inner backward that ended in another thread than it began in counts as a separate one.
void BackwardWatch::on_inner_end() {
  const int outer = autograd::get_current_graph_task_id();
  if (outer < 0)
    end();
  else if (tasks_.insert(outer).second)
    await_end();
}

void BackwardWatch::end() {
  reset();
  on_end_();
}

void BackwardWatch::reset() {
  tasks_.clear();
  last_task_ = -1;
  outermost_ = 0;
}

}  // namespace jitstep
