#include "emulation/fiber.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

// The context switch pushes the callee-saved registers of the calling convention, swaps the stacks, and pops the
// registers from the other stack. ucontext would need a system call for the signal mask at each switch. A new fiber
// starts at jitstep_fiber_begin, whose unwind rule marks the outermost frame.
extern "C" void jitstep_fiber_switch(void** save, void* load);
extern "C" void jitstep_fiber_begin();

#if defined(__x86_64__)
asm(R"(
  .text
  .p2align 4
  .hidden jitstep_fiber_switch
  .globl jitstep_fiber_switch
  .type jitstep_fiber_switch, @function
jitstep_fiber_switch:
  .cfi_startproc
  pushq %rbp
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbp, 0
  pushq %rbx
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbx, 0
  pushq %r12
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r12, 0
  pushq %r13
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r13, 0
  pushq %r14
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r14, 0
  pushq %r15
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r15, 0
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  ldmxcsr (%rsp)
  fldcw 4(%rsp)
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %r15
  .cfi_adjust_cfa_offset -8
  .cfi_restore %r15
  popq %r14
  .cfi_adjust_cfa_offset -8
  .cfi_restore %r14
  popq %r13
  .cfi_adjust_cfa_offset -8
  .cfi_restore %r13
  popq %r12
  .cfi_adjust_cfa_offset -8
  .cfi_restore %r12
  popq %rbx
  .cfi_adjust_cfa_offset -8
  .cfi_restore %rbx
  popq %rbp
  .cfi_adjust_cfa_offset -8
  .cfi_restore %rbp
  popq %rcx  # not ret: its target would always be mispredicted
  .cfi_adjust_cfa_offset -8
  .cfi_register %rip, %rcx
  jmp *%rcx
  .cfi_endproc
  .size jitstep_fiber_switch, .-jitstep_fiber_switch

  .p2align 4
  .hidden jitstep_fiber_begin
  .globl jitstep_fiber_begin
  .type jitstep_fiber_begin, @function
jitstep_fiber_begin:
  .cfi_startproc
  .cfi_undefined %rip
  movq %r12, %rdi
  call *%r13
  ud2
  .cfi_endproc
  .size jitstep_fiber_begin, .-jitstep_fiber_begin
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .p2align 4
  .hidden jitstep_fiber_switch
  .globl jitstep_fiber_switch
  .type jitstep_fiber_switch, %function
jitstep_fiber_switch:
  .cfi_startproc
  sub sp, sp, #176
  .cfi_adjust_cfa_offset 176
  stp x29, x30, [sp, #0]
  .cfi_rel_offset x29, 0
  .cfi_rel_offset x30, 8
  stp x19, x20, [sp, #16]
  .cfi_rel_offset x19, 16
  .cfi_rel_offset x20, 24
  stp x21, x22, [sp, #32]
  .cfi_rel_offset x21, 32
  .cfi_rel_offset x22, 40
  stp x23, x24, [sp, #48]
  .cfi_rel_offset x23, 48
  .cfi_rel_offset x24, 56
  stp x25, x26, [sp, #64]
  .cfi_rel_offset x25, 64
  .cfi_rel_offset x26, 72
  stp x27, x28, [sp, #80]
  .cfi_rel_offset x27, 80
  .cfi_rel_offset x28, 88
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mrs x9, fpcr
  str x9, [sp, #160]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldr x9, [sp, #160]
  msr fpcr, x9
  ldp d14, d15, [sp, #144]
  ldp d12, d13, [sp, #128]
  ldp d10, d11, [sp, #112]
  ldp d8, d9, [sp, #96]
  ldp x27, x28, [sp, #80]
  ldp x25, x26, [sp, #64]
  ldp x23, x24, [sp, #48]
  ldp x21, x22, [sp, #32]
  ldp x19, x20, [sp, #16]
  ldp x29, x30, [sp, #0]
  add sp, sp, #176
  .cfi_adjust_cfa_offset -176
  br x30  // not ret: its target would always be mispredicted
  .cfi_endproc
  .size jitstep_fiber_switch, .-jitstep_fiber_switch

  .p2align 4
  .hidden jitstep_fiber_begin
  .globl jitstep_fiber_begin
  .type jitstep_fiber_begin, %function
jitstep_fiber_begin:
  .cfi_startproc
  .cfi_undefined x30
  mov x0, x19
  blr x20
  brk #1
  .cfi_endproc
  .size jitstep_fiber_begin, .-jitstep_fiber_begin
)");
#else
#error "fibers: no context switch for this processor. x86-64 and aarch64 are supported."
#endif

namespace jitstep::emulation {
namespace {

// Sanitizers make frames several times larger. Untouched pages use no memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kStackBytes = 256 * 1024;
#else
constexpr std::size_t kStackBytes = 64 * 1024;
#endif
constexpr std::size_t kColorStep = 5 * 64;  // an odd number of cache lines reaches every set
constexpr std::size_t kColorRange = 4096;

// More than a page, because a large frame could jump over one page. 64 KiB are a multiple of all page sizes of Linux on
// x86-64 and Arm. Without access, they use no memory.
constexpr std::size_t kGuardBytes = 64 * 1024;

// The registers that jitstep_fiber_switch pushes and pops, in memory order.
#if defined(__x86_64__)
struct Frame {
  std::uint32_t mxcsr = 0;
  std::uint16_t x87_control = 0;
  std::uint16_t unused = 0;
  const void *r15 = nullptr, *r14 = nullptr;
  void (*r13)(Fiber*) = nullptr;
  Fiber* r12 = nullptr;
  const void *rbx = nullptr, *rbp = nullptr;
  void (*ip)() = nullptr;
};
static_assert(sizeof(Frame) == 64);

Frame first_frame(Fiber* fiber, void (*run)(Fiber*)) {
  Frame frame;
  asm volatile("stmxcsr %0" : "=m"(frame.mxcsr));
  asm volatile("fnstcw %0" : "=m"(frame.x87_control));
  frame.r13 = run;
  frame.r12 = fiber;
  frame.ip = jitstep_fiber_begin;
  return frame;
}

void set_modes(Frame& frame, const Frame& from) {
  frame.mxcsr = from.mxcsr;
  frame.x87_control = from.x87_control;
}
#else
struct Frame {
  const void* x29 = nullptr;
  void (*x30)() = nullptr;
  Fiber* x19 = nullptr;
  void (*x20)(Fiber*) = nullptr;
  const void* x21_to_x28[8] = {};
  double d8_to_d15[8] = {};
  std::uint64_t fpcr = 0;
  std::uint64_t unused = 0;
};
static_assert(sizeof(Frame) == 176);

Frame first_frame(Fiber* fiber, void (*run)(Fiber*)) {
  Frame frame;
  asm volatile("mrs %0, fpcr" : "=r"(frame.fpcr));
  frame.x20 = run;
  frame.x19 = fiber;
  frame.x30 = jitstep_fiber_begin;
  return frame;
}

void set_modes(Frame& frame, const Frame& from) { frame.fpcr = from.fpcr; }
#endif

}  // namespace

Fiber::Fiber(unsigned color) {
  const std::size_t bytes = kGuardBytes + kStackBytes;
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::system_error(errno, std::generic_category(), "cannot map a fiber's stack");
  }
  memory_ = static_cast<std::byte*>(memory);
  top_ = memory_ + bytes - color * kColorStep % kColorRange;
  if (mprotect(memory_, kGuardBytes, PROT_NONE) != 0) {
    const int code = errno;
    munmap(memory_, bytes);
    throw std::system_error(code, std::generic_category(), "cannot guard a fiber's stack");
  }
}

Fiber::~Fiber() {
  drop();
  munmap(memory_, kGuardBytes + kStackBytes);
}

void Fiber::start(Body body, void* argument) {
  if (!finished_) drop();
  body_ = body;
  argument_ = argument;
  finished_ = false;
  const Frame frame = first_frame(this, run);
  if (fiber_stack_ !=
      nullptr) {  // the fiber is suspended in run(), where it waits for its next body
    set_modes(*static_cast<Frame*>(fiber_stack_), frame);
    return;
  }
#ifdef __SANITIZE_THREAD__
  tsan_fiber_ = __tsan_create_fiber(0);
#endif
  fiber_stack_ = top_ - sizeof(Frame);
  std::memcpy(fiber_stack_, &frame, sizeof(Frame));
}

void Fiber::resume() {
#ifdef __SANITIZE_THREAD__
  tsan_host_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_fiber_, 0);
#endif
#ifdef __SANITIZE_ADDRESS__
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, memory_ + kGuardBytes, kStackBytes);
#endif
  jitstep_fiber_switch(&host_stack_, fiber_stack_);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(tsan_host_, 0);
#endif
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&fake_stack_, host_bottom_, host_size_);
#endif
  jitstep_fiber_switch(&fiber_stack_, host_stack_);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_stack_, &host_bottom_, &host_size_);
#endif
}

void Fiber::run(Fiber* self) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &self->host_bottom_, &self->host_size_);
#endif
  for (;;) {  // reused for the next body, because a new fiber costs 0.5 ms under ThreadSanitizer
    self->body_(self->argument_);
    self->finished_ = true;
    self->suspend();
  }
}

// Discards the content of the stack.
void Fiber::drop() {
  fiber_stack_ = nullptr;
#ifdef __SANITIZE_THREAD__
  if (tsan_fiber_ != nullptr) __tsan_destroy_fiber(tsan_fiber_);
  tsan_fiber_ = nullptr;
#endif
#ifdef __SANITIZE_ADDRESS__
  ASAN_UNPOISON_MEMORY_REGION(memory_ + kGuardBytes, kStackBytes);
#endif
}

}  // namespace jitstep::emulation
