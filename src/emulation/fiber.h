// A fiber: a function with a separate stack that can suspend and resume on one OS thread. Independent of kernels. The
// SIMT emulation runs each lane on a fiber.
#pragma once

#include <cstddef>

namespace jitstep::emulation {

// Owns one stack, with a guard page below it, and runs one function at a time on it. start() sets the function.
// resume() runs it to the next suspend() or to its end. The thread that called start() must also call resume(). If a
// fiber is destroyed or started again before its function has ended, destructors on its stack do not run.
//
// Each fiber has its own rounding modes. It starts with those of the thread that called start().
class Fiber {
 public:
  using Body = void (*)(void* argument);

  // `color`: shifts the top of the stack by a few cache lines, so that fibers of the same function use different cache
  // sets. Any number is valid.
  explicit Fiber(unsigned color = 0);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Sets body(argument) as the function to run. It must not throw.
  void start(Body body, void* argument);

  // Runs the fiber until it suspends or ends. Call it from outside the fiber, and only if the fiber has not finished.
  void resume();

  // Returns to the caller of resume(). Call it only on this fiber's stack.
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

  // For AddressSanitizer and ThreadSanitizer. Unused without them.
  [[maybe_unused]] void* fake_stack_ = nullptr;
  [[maybe_unused]] const void* host_bottom_ = nullptr;
  [[maybe_unused]] std::size_t host_size_ = 0;
  [[maybe_unused]] void* tsan_fiber_ = nullptr;
  [[maybe_unused]] void* tsan_host_ = nullptr;
};

}  // namespace jitstep::emulation
