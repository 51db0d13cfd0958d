// What keeps the library usable in a forked child: no lock stays held by a thread that is gone, and
// NVRTC, which may hang there, is refused.
#pragma once

#include <mutex>

#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// A mutex that fork() takes and gives back on both sides, so that a child never finds it held.
/// Note: only leaf locks may be of this type; no other one may be taken while it is held.
class JITSTEP_API ForkSafeMutex {
 public:
  ForkSafeMutex();
  ~ForkSafeMutex();
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// Says that this process has used NVRTC; its later children must not.
void note_nvrtc_used();

/// True in a child whose parent had used NVRTC before fork().
bool forked_after_nvrtc();

}  // namespace jitstep::jit
