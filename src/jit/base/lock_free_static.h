// A constant of the process that is made on first use, without a lock.
#pragma once

#include <atomic>
#include <memory>

namespace jitstep::jit {

/// The result of `make`, which threads that come first may call at the same time. One result stays, and is never
/// destroyed. Unlike a static variable, it has no lock. A child process of fork() would wait forever for the lock of a
/// thread that it does not have.
template <auto make>
const auto& lock_free_static() {
  using Value = decltype(make());
  static std::atomic<const Value*> known = nullptr;
  if (const Value* const value = known) return *value;
  auto value = std::make_unique<const Value>(make());
  const Value* first = nullptr;
  return known.compare_exchange_strong(first, value.get()) ? *value.release() : *first;
}

}  // namespace jitstep::jit
