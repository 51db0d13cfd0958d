// What keeps the library usable in a forked child: no lock stays held by a thread that is gone, and
// libraries that do not survive fork() are refused there. A child does not stand for its parent either.
#pragma once

#include <mutex>

#include "jit/base/file_handle.h"
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

  /// As std::mutex does.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// One end of a socket pair, which fork() closes in the child: the other end reads its end of file when this process
/// ends, whatever its children do.
class JITSTEP_API ForkClosedSocket {
 public:
  /// Makes the pair; get() is negative if the system has none left.
  ForkClosedSocket();
  ~ForkClosedSocket();
  ForkClosedSocket(const ForkClosedSocket&) = delete;
  ForkClosedSocket& operator=(const ForkClosedSocket&) = delete;

  int get() const { return here_.get(); }
  /// The other end, which children may hold.
  FileHandle take_other() { return std::move(other_); }

 private:
  FileHandle here_, other_;
};

/// What a child must not use if its parent has: NVRTC may hang there, and contexts of the CUDA
/// driver do not survive.
enum class ForkSensitive { nvrtc, cuda_driver };

/// Says that this process uses a library; its later children must not.
void note_used(ForkSensitive library);

/// True in a child whose parent had used the library before fork().
bool forked_after(ForkSensitive library);

/// True in a child whose parent had more than one thread: those of a pool are gone, and who hands
/// them work waits for ever.
JITSTEP_API bool forked_from_threads();

}  // namespace jitstep::jit
