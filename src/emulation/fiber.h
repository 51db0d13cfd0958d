// A fiber: a function with a stack of its own that can stop in the middle and be continued later,
// all on one OS thread. Knows nothing of kernels; the SIMT emulation runs each lane on one.
#pragma once

#include <cstddef>

namespace jitstep::emulation {

// Owns one stack (with a guard page below it) and runs one function at a time on it. start() arms
// it, resume() runs it up to the next suspend() or its end. Both belong to one OS thread: a fiber
// is resumed by the thread that started it. A fiber that is destroyed or started again before its
// function has ended is dropped: destructors on its stack do not run.
//
// Rounding modes travel with the fiber: it begins with those of the thread that called start().
class Fiber {
 public:
  using Body = void (*)(void* argument);

  // `color` shifts the top of the stack by a few cache lines, so that many fibers running the same
  // function do not all compete for the same cache sets; any number will do.
  explicit Fiber(unsigned color = 0);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Arms the fiber to run body(argument), which must not throw.
  void start(Body body, void* argument);

  // Runs the fiber until it suspends or ends. Call it from outside, on an unfinished fiber only.
  void resume();

  // Returns to the caller of resume(). Call it on this fiber's own stack only.
  void suspend();

  bool finished() const { return finished_; }

 private:
  [[noreturn]] static void run(Fiber* self);
  void drop();

  std::byte* memory_ = nullptr;  // guard page, then the stack
  std::byte* top_ = nullptr;
  void* fiber_stack_ = nullptr;  // saved stack pointers
  void* host_stack_ = nullptr;
  Body body_ = nullptr;
  void* argument_ = nullptr;
  bool finished_ = true;

  // What AddressSanitizer and ThreadSanitizer want to know; unused without them.
  [[maybe_unused]] void* fake_stack_ = nullptr;
  [[maybe_unused]] const void* host_bottom_ = nullptr;
  [[maybe_unused]] std::size_t host_size_ = 0;
  [[maybe_unused]] void* tsan_fiber_ = nullptr;
  [[maybe_unused]] void* tsan_host_ = nullptr;
};

}  // namespace jitstep::emulation
