// The only file that depends on the compiler, except port_cpu.cuh and port_gpu.cuh: NVRTC for GPUs, the host compiler
// for the CPU, or the host compiler with the GPU source for the SIMT emulation.
#pragma once

#ifndef JITSTEP_REAL
#define JITSTEP_REAL float
#endif
// The machine epsilon of the parameter's dtype. A unit for 16-bit parameters defines it.
#ifndef JITSTEP_PARAMETER_EPSILON
#define JITSTEP_PARAMETER_EPSILON (jitstep::kSame<jitstep::real, float> ? 0x1p-23 : 0x1p-52)
#endif

// INDEPENDENT: before a loop whose iterations do not write what others access.
#if defined(__clang__)
#define INDEPENDENT_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT_LOOP _Pragma("GCC ivdep")
#endif
// SLOW_PATH: a function that is not inlined, because inlining would only slow down compilation.
// INLINED: after the parameters of a lambda that contains a loop over elements or is called in one. Compilers vectorize
// no loop across a call, and g++ inlines no large lambda by itself.
// ONE_BY_ONE: before a loop that the compiler should not unroll.
#if defined(__CUDACC_RTC__)
#define KHD __device__ __forceinline__
#define SLOW_PATH static __device__ __noinline__
#define INLINED
#define UNROLL _Pragma("unroll")
#define ONE_BY_ONE _Pragma("unroll 1")
#define INDEPENDENT
#define JITSTEP_ENTRY(name, function)                                                        \
  extern "C" __global__ void __launch_bounds__(Kernel::kThreads, Kernel::kBlocks)            \
      name(const __grid_constant__ jitstep::Args args) {                                     \
    Kernel::function(args, {jitstep::block_index(), args.item_count, jitstep::grid_size()}); \
  }
#elif defined(JITSTEP_EMULATION)
#define KHD inline __attribute__((always_inline))
#define SLOW_PATH static inline __attribute__((noinline))
#define INLINED __attribute__((always_inline))
#define UNROLL
#define ONE_BY_ONE
#define INDEPENDENT INDEPENDENT_LOOP
#define JITSTEP_ENTRY(name, function)                                                        \
  extern "C" __attribute__((visibility("default"))) void name(const void* p) {               \
    const auto& args = *static_cast<const jitstep::Args*>(p);                                \
    Kernel::function(args, {jitstep::block_index(), args.item_count, jitstep::grid_size()}); \
  }
#else
#define KHD inline __attribute__((always_inline))
#define SLOW_PATH static inline __attribute__((noinline))
#define INLINED __attribute__((always_inline))
#define UNROLL
#define ONE_BY_ONE
#define INDEPENDENT INDEPENDENT_LOOP
#define JITSTEP_ENTRY(name, function)                                                         \
  extern "C" __attribute__((visibility("default"))) void name(const void* p, long long begin, \
                                                              long long end) {                \
    jitstep::DefaultRounding scope;                                                           \
    Kernel::function(*static_cast<const jitstep::Args*>(p), {begin, end, 1});                 \
  }
#endif

namespace jitstep {

// Integers with the same width in every compiler. kernel/hyper_params.cuh declares the same, because the host uses it
// alone.
using int64 = long long;
using uint64 = unsigned long long;
using uint32 = unsigned int;
using uint16 = unsigned short;
using uint8 = unsigned char;

using real = JITSTEP_REAL;

// The items of one worker: begin, begin + stride, ... below end.
struct Range {
  int64 begin, end, stride;
};

template <class A, class B>
inline constexpr bool kSame = false;
template <class A>
inline constexpr bool kSame<A, A> = true;
template <class T>
inline constexpr bool kIsClass = __is_class(T);

// The same bits as another type, in constants.
template <class To, class From>
constexpr To bit_cast(From x) {
  return __builtin_bit_cast(To, x);
}
inline constexpr double kInfinity = bit_cast<double>(0x7ff0000000000000ull);
inline constexpr double kNaN = bit_cast<double>(0x7ff8000000000000ull);
inline constexpr double kParameterEpsilon = JITSTEP_PARAMETER_EPSILON;

// ---- bits and arithmetic -----------------------------------------------------------------------

#if defined(__CUDACC_RTC__)
KHD uint32 bits_of(float x) { return __float_as_uint(x); }
KHD uint64 bits_of(double x) { return static_cast<uint64>(__double_as_longlong(x)); }
KHD float float_of(uint32 b) { return __uint_as_float(b); }
KHD double double_of(uint64 b) { return __longlong_as_double(static_cast<int64>(b)); }
KHD float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
KHD double fma(double a, double b, double c) { return __fma_rn(a, b, c); }
KHD float sqrt(float x) { return __fsqrt_rn(x); }
KHD double sqrt(double x) { return __dsqrt_rn(x); }
KHD float unit_clamped(float x) { return __saturatef(x); }
KHD bool is_finite(float x) { return ::fabsf(x) < static_cast<float>(kInfinity); }
#else
KHD uint32 bits_of(float x) { return __builtin_bit_cast(uint32, x); }
KHD uint64 bits_of(double x) { return __builtin_bit_cast(uint64, x); }
KHD float float_of(uint32 b) { return __builtin_bit_cast(float, b); }
KHD double double_of(uint64 b) { return __builtin_bit_cast(double, b); }
KHD float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
KHD double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
KHD float sqrt(float x) { return __builtin_sqrtf(x); }
KHD double sqrt(double x) { return __builtin_sqrt(x); }
KHD bool is_finite(float x) { return (bits_of(x) & 0x7f800000u) != 0x7f800000u; }
// Clamps to [0, 1] by integer comparisons, because floats have the same order as their bits. A NaN becomes 0. The bits
// of NaN and of negative numbers are above those of infinity.
KHD float unit_clamped(float x) {
  const uint32 bits = bits_of(x), positive = bits <= 0x7f800000u ? bits : 0;
  return float_of(positive < 0x3f800000u ? positive : 0x3f800000u);
}
#endif

KHD float number_of(uint32 b) { return float_of(b); }
KHD double number_of(uint64 b) { return double_of(b); }

KHD float abs(float x) { return float_of(bits_of(x) & 0x7fffffffu); }
KHD double abs(double x) { return double_of(bits_of(x) & 0x7fffffffffffffffull); }
KHD bool is_finite(double x) {
  return (bits_of(x) & 0x7ff0000000000000ull) != 0x7ff0000000000000ull;
}

// yes ? a : b without a branch. From a branch, the host compiler may make two paths, each with its own shuffle, or a
// loop that is not vectorized.
#if defined(__CUDACC_RTC__)
template <class T>
KHD T chosen(bool yes, T a, T b) {
  return yes ? a : b;
}
#else
template <class T>
KHD T chosen(bool yes, T a, T b) {
  const auto mask = decltype(bits_of(a)){0} - yes;
  return number_of((bits_of(a) & mask) | (bits_of(b) & ~mask));
}
#endif

// Comparisons, not fmin or fmax: if either operand is NaN, the result is b.
template <class T>
KHD T min(T a, T b) {
  return a < b ? a : b;
}
template <class T>
KHD T max(T a, T b) {
  return a > b ? a : b;
}
// As torch.maximum: if either operand is NaN, the result is NaN.
template <class T>
KHD T maximum(T a, T b) {
  return chosen((a > b) | (a != a), a, b);
}
template <class T>
KHD T sign(T x) {
  return x > 0 ? T(1) : x < 0 ? T(-1) : x;
}

// base^n by squaring, from the lowest bit: the same products on every target.
KHD double power(double base, int64 n) {
  double result = 1;
  for (; n > 0; n >>= 1, base *= base)
    if (n & 1) result *= base;
  return result;
}

// ---- threads, barriers and shared memory ----------------------------------------------------------

#if defined(__CUDACC_RTC__)
KHD uint32 thread_index() { return threadIdx.x; }
KHD int64 block_index() { return blockIdx.x; }
KHD int64 grid_size() { return gridDim.x; }
KHD void block_barrier() { __syncthreads(); }
KHD void warp_barrier() { __syncwarp(); }
// p, which points to global memory. NVVM does not conclude this itself in a kernel with assembly, and would use the
// instructions for any memory. NVRTC 12.9 and 13.0 reject the assumption for structs of one byte.
template <class T>
KHD T* in_global(T* p) {
  if constexpr (!(__is_class(T) && sizeof(T) == 1)) __builtin_assume(__isGlobal(p));
  return p;
}
KHD float shuffle_xor(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
KHD double shuffle_xor(double x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
KHD uint32 shuffle_xor(uint32 x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
template <class T, int Site>
KHD T* shared() {
  __shared__ alignas(T) unsigned char bytes[sizeof(T)];
  return reinterpret_cast<T*>(bytes);
}
#elif defined(JITSTEP_EMULATION)
struct SimtBackend {  // the emulation fills it, in this order
  unsigned (*thread_index)();
  unsigned (*block_size)();
  unsigned (*block_index)();
  unsigned (*grid_size)();
  void (*block_barrier)();
  void (*warp_barrier)();
  unsigned long long (*shuffle_xor)(unsigned long long bits, int lane_mask);
  void* (*shared)(unsigned bytes, unsigned site);
};
}  // namespace jitstep
extern "C" __attribute__((visibility("default"))) const jitstep::SimtBackend* jitstep_simt_backend;
const jitstep::SimtBackend* jitstep_simt_backend = nullptr;
namespace jitstep {
KHD uint32 thread_index() { return jitstep_simt_backend->thread_index(); }
KHD int64 block_index() { return jitstep_simt_backend->block_index(); }
KHD int64 grid_size() { return jitstep_simt_backend->grid_size(); }
KHD void block_barrier() { jitstep_simt_backend->block_barrier(); }
KHD void warp_barrier() { jitstep_simt_backend->warp_barrier(); }
KHD float shuffle_xor(float x, int mask) {
  return float_of(static_cast<uint32>(jitstep_simt_backend->shuffle_xor(bits_of(x), mask)));
}
KHD double shuffle_xor(double x, int mask) {
  return double_of(jitstep_simt_backend->shuffle_xor(bits_of(x), mask));
}
KHD uint32 shuffle_xor(uint32 x, int mask) {
  return static_cast<uint32>(jitstep_simt_backend->shuffle_xor(x, mask));
}
template <class T, int Site>
KHD T* shared() {
  return static_cast<T*>(jitstep_simt_backend->shared(sizeof(T), Site));
}
#else
KHD uint32 thread_index() { return 0; }
KHD void block_barrier() {}
KHD void warp_barrier() {}
template <class T>
KHD T shuffle_xor(T x, int) {
  return x;
}
// Never inlined: clang assumes that __tls_get_addr() leaves the registers zmm16 to zmm31 as they are, but the first
// call of a thread allocates memory. Around a call of an ordinary function, it saves them.
template <class T, int Site>
__attribute__((noinline)) T* shared() {
  static thread_local T value;
  return &value;
}

// Rounds to nearest, without flush-to-zero, during a step. Restores the caller's mode afterwards.
class DefaultRounding {
 public:
#if defined(__x86_64__)
  DefaultRounding() : saved_(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(0x1f80); }
  ~DefaultRounding() { __builtin_ia32_ldmxcsr(saved_); }

 private:
  unsigned saved_;
#elif defined(__aarch64__)
  DefaultRounding() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" ::"r"(0ul));
  }
  ~DefaultRounding() { asm volatile("msr fpcr, %0" ::"r"(saved_)); }

 private:
  unsigned long saved_;
#endif
};
#endif

#if !defined(__CUDACC_RTC__)
template <class T>
KHD T* in_global(T* p) {
  return p;
}
#endif

// The maximum over the lanes of a warp.
#if defined(__CUDACC_RTC__) && __CUDA_ARCH__ >= 800
KHD uint32 max_of_warp(uint32 x) { return __reduce_max_sync(0xffffffffu, x); }
#else
KHD uint32 max_of_warp(uint32 x) {
  for (int lane = 1; lane < 32; lane *= 2) x = max(x, shuffle_xor(x, lane));
  return x;
}
#endif

}  // namespace jitstep
