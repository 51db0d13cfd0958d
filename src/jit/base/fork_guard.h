// Makes the library usable in a forked child. fork() never leaves a lock held. Libraries that do not survive fork() are
// rejected in the child. Watchdogs do not mistake a child for its parent.
#pragma once

#include <mutex>

#include "jit/base/file_handle.h"
#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// A mutex that fork() locks before and unlocks after, in parent and child, so that a child never finds it locked. Only
/// leaf locks may have this type: never lock another mutex while you hold it.
class JITSTEP_API ForkSafeMutex {
 public:
  ForkSafeMutex();
  ~ForkSafeMutex();
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;

  /// As in std::mutex.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// One end of a socket pair that fork() closes in the child. The other end reads end-of-file when this process ends,
/// even if its children still run.
class JITSTEP_API ForkClosedSocket {
 public:
  /// Makes the pair. get() is negative on failure.
  ForkClosedSocket();
  ~ForkClosedSocket();
  ForkClosedSocket(const ForkClosedSocket&) = delete;
  ForkClosedSocket& operator=(const ForkClosedSocket&) = delete;

  int get() const { return here_.get(); }
  /// The other end, which child processes may inherit.
  FileHandle take_other() { return std::move(other_); }

 private:
  FileHandle here_, other_;
};

/// Libraries that a child must not use if its parent has used them. NVRTC may hang there, and contexts of the CUDA
/// driver do not survive fork().
enum class ForkSensitive { nvrtc, cuda_driver };

/// Records that this process uses a library.
void note_used(ForkSensitive library);

/// True in a child if the parent had used the library before fork().
bool forked_after(ForkSensitive library);

/// True in a child if the parent had several threads. The threads of a pool do not exist in the child, so submitting
/// work to it blocks forever.
JITSTEP_API bool forked_from_threads();

}  // namespace jitstep::jit
