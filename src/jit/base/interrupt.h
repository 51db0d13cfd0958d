// Ends waits for other programs early, as when a user presses Ctrl-C.
#pragma once

#include <atomic>
#include <exception>

#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// The host has ended a wait. It is no Error, so that nothing takes it for a failure of the program and stores it.
class JITSTEP_API Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

/// Threads that wait for another program call `check` every few milliseconds. If it returns true, they kill the program
/// and throw Interrupted. Null: no check. Thread-safe.
JITSTEP_API void set_interrupt_check(bool (*check)());

/// Whether the check has returned true, in this thread or in another one that works for the same in_parallel().
JITSTEP_API bool is_interrupted();

/// The threads of one in_parallel().
class JITSTEP_API InterruptibleTasks {
 public:
  InterruptibleTasks();
  void interrupt() { interrupted_ = true; }
  bool is_interrupted() const;

  /// Makes this thread one of them until the end of a scope.
  class JITSTEP_API Member {
   public:
    explicit Member(const InterruptibleTasks& tasks);
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

   private:
    const InterruptibleTasks* outer_;
  };

 private:
  std::atomic<bool> interrupted_ = false;
  const InterruptibleTasks* outer_;  // those that the caller of in_parallel() works for, or null
};

}  // namespace jitstep::jit
