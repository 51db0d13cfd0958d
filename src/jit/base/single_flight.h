// Each thing is made once, however many threads ask for it.
#pragma once

#include <unistd.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <unordered_map>

#include "jit/base/fork_guard.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {

/// A table of shared, immutable values. The first thread to ask for a key makes its value, without
/// any lock; the others wait for that key only. A CompileError is kept and thrown again; any other
/// failure is forgotten, as its cause may go away.
template <class Value>
class SingleFlight {
 public:
  using Pointer = std::shared_ptr<const Value>;

  /// The value of a key. `found` says whether it was there or under way already.
  Pointer get(const std::string& key, const std::function<Pointer()>& make, bool& found) {
    std::promise<Pointer> promise;
    std::shared_future<Pointer> future;
    {
      std::lock_guard lock(mutex_);
      auto [slot, added] = slots_.try_emplace(key);
      // After fork() nobody is left to finish what was under way in the parent.
      const bool orphaned = !added && slot->second.maker != getpid() && !ready(slot->second.future);
      found = !added && !orphaned;
      if (!found) slot->second = {promise.get_future().share(), getpid()};
      future = slot->second.future;
    }
    if (!found) fulfil(promise, key, make);
    return future.get();
  }

  /// Puts another value in the place of one that turned out not to do.
  void replace(const std::string& key, Pointer value) {
    std::promise<Pointer> promise;
    promise.set_value(std::move(value));
    std::lock_guard lock(mutex_);
    slots_[key] = {promise.get_future().share(), getpid()};
  }

 private:
  struct Slot {
    std::shared_future<Pointer> future;
    pid_t maker = 0;
  };

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
