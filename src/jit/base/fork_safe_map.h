// A map of objects that are made on first use and never removed.
#pragma once

#include <map>
#include <mutex>
#include <utility>

#include "jit/base/fork_guard.h"

namespace jitstep::jit {

/// Its lock is not held while a value is made, so that a child of fork() never finds it locked meanwhile. If two threads
/// make the same value, the first to finish wins. A static object of this type must be made when its library is loaded:
/// a child that is forked while another thread makes a static variable waits for it forever.
template <class Key, class Value>
class ForkSafeMap {
 public:
  /// The value of the key, or the result of `make`.
  template <class Make>
  const Value& get(const Key& key, const Make& make) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = values_.find(key); known != values_.end()) return known->second;
    }
    Value fresh = make();
    const std::lock_guard lock(mutex_);
    return values_.try_emplace(key, std::move(fresh)).first->second;
  }

 private:
  ForkSafeMutex mutex_;
  std::map<Key, Value> values_;
};

}  // namespace jitstep::jit
