// Computes each value once, even if several threads request it.
#pragma once

#include <unistd.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

#include "jit/base/fork_guard.h"
#include "jit/base/interrupt.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {

/// A table of shared, immutable values. The first thread that requests a key computes its value, without a lock. Other
/// threads wait for that key only. A CompileError is stored and thrown again. Other exceptions are not stored, because
/// their cause may be temporary. If the computation is interrupted, one of the waiting threads computes the value. A
/// computation that requests its own key gets an Error instead of waiting forever.
template <class Value>
class SingleFlight {
 public:
  using Pointer = std::shared_ptr<const Value>;

  /// The value of a key. `found` becomes true if the value existed or another thread was computing it.
  Pointer get(const std::string& key, const std::function<Pointer()>& make, bool& found) {
    for (;;) {
      try {
        return get_once(key, make, found);
      } catch (const Interrupted&) {
        if (!found || is_interrupted()) throw;
      }
    }
  }

  /// Replaces a value that turned out to be unusable.
  void replace(const std::string& key, Pointer value) {
    std::promise<Pointer> promise;
    promise.set_value(std::move(value));
    std::lock_guard lock(mutex_);
    slots_[key] = slot_of(promise);
  }

 private:
  Pointer get_once(const std::string& key, const std::function<Pointer()>& make, bool& found) {
    std::promise<Pointer> promise;
    std::shared_future<Pointer> future;
    {
      std::lock_guard lock(mutex_);
      auto [slot, added] = slots_.try_emplace(key);
      const bool pending = !added && !ready(slot->second.future);
      // In a forked child, no thread completes what was in progress in the parent.
      const bool orphaned = pending && slot->second.process != getpid();
      if (pending && !orphaned && slot->second.thread == std::this_thread::get_id())
        throw Error(kWaitsForItself);
      found = !added && !orphaned;
      if (!found) slot->second = slot_of(promise);
      future = slot->second.future;
    }
    if (!found) fulfil(promise, key, make);
    return future.get();
  }

  static constexpr char kWaitsForItself[] =
      "the call would wait for itself: this thread is making what it requests. A handler of "
      "warnings must not request kernels, and the function of set_default_settings() must not use "
      "the default engine.";

  struct Slot {
    std::shared_future<Pointer> future;
    pid_t process = 0;       // of the maker
    std::thread::id thread;  // of the maker
  };

  static Slot slot_of(std::promise<Pointer>& promise) {
    return {promise.get_future().share(), getpid(), std::this_thread::get_id()};
  }

  static bool ready(const std::shared_future<Pointer>& future) {
    return future.valid() && future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  void fulfil(std::promise<Pointer>& promise, const std::string& key,
              const std::function<Pointer()>& make) {
    try {
      promise.set_value(make());
    } catch (const CompileError&) {
      promise.set_exception(std::current_exception());
    } catch (...) {
      {
        std::lock_guard lock(mutex_);
        slots_.erase(key);
      }
      promise.set_exception(std::current_exception());
    }
  }

  ForkSafeMutex mutex_;
  std::unordered_map<std::string, Slot> slots_;
};

}  // namespace jitstep::jit
