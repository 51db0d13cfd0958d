// When the outermost backward() that computes gradients has ended.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace jitstep {

/// Follows the backward() calls whose gradients GradHooks report. A backward may be nested in another, as with
/// activation checkpointing. Hold lock() in all other calls. Belongs to a std::shared_ptr.
class BackwardWatch : public std::enable_shared_from_this<BackwardWatch> {
 public:
  /// `on_end` is called under lock() when the outermost backward has ended, unless it failed. backward() rethrows its
  /// exceptions.
  explicit BackwardWatch(std::function<void()> on_end) : on_end_(std::move(on_end)) {}

  /// backward() uses one thread per device. Recursive, because torch may run a callback immediately in the thread that
  /// registers it.
  std::unique_lock<std::recursive_mutex> lock() { return std::unique_lock(mutex_); }

  /// Call it for each gradient, in the thread that computed it. True if the last gradient was of another backward.
  /// A nested one is another.
  bool note_gradient();
  /// True from the first gradient of an outermost backward to its end. A backward that failed does not end.
  bool is_running() const { return !tasks_.empty(); }
  /// The number of outermost backwards since the last end. Above 1, gradients of a second one came before the end of
  /// the first: the first one failed, or both run at the same time.
  int outermost() const { return outermost_; }
  /// Forgets a backward that failed.
  void reset();

 private:
  void await_end();
  void on_inner_end();
  void end();
  template <class Call>
  auto locked(Call call);

  std::function<void()> on_end_;
  std::recursive_mutex mutex_;
  std::set<int>
      tasks_;           // torch's task ids of the outermost backward, and of the nested ones so far
  int last_task_ = -1;  // the task of the last gradient
  int outermost_ = 0;   // of these tasks
};

}  // namespace jitstep
