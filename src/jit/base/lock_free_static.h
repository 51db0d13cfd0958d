// An object of the process that is made on first use, without a lock.
#pragma once

#include <atomic>
#include <memory>

namespace jitstep::jit {

/// The object of `make`, which returns a unique_ptr. Threads that come first may call it at the same time. One object
/// stays, and is never destroyed. Unlike a static variable, it has no lock. A child process of fork() would wait forever
/// for the lock of a thread that it does not have.
template <auto make>
auto& lock_free_static() {
  using Object = typename decltype(make())::element_type;
  static std::atomic<Object*> known = nullptr;
  if (Object* const object = known) return *object;
  auto fresh = make();
  Object* first = nullptr;
  return known.compare_exchange_strong(first, fresh.get()) ? *fresh.release() : *first;
}

}  // namespace jitstep::jit
