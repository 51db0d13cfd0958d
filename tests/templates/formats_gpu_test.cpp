// Conversions and arithmetic of single numbers have the same bits on a GPU and on the CPU. A GPU takes all floats if
// JITSTEP_TEST_ALL_FLOATS is set, and a sample otherwise.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "../../templates/lang/contract.cuh"
#include "jit/base/text.h"
#include "jitstep/jit/engine.h"
#include "numbers.cuh"
#include "support/gpu_backend.h"

namespace jitstep::support {
namespace {

const bool kAllFloats = std::getenv("JITSTEP_TEST_ALL_FLOATS") != nullptr;

// The kernel's only parameter. Number i is first + i * stride.
struct Job {
  uint32 first, stride, count;
  const double* in;
  uint64* out;
};

std::string text_of(const char* name) {
  std::ifstream file(std::string(JITSTEP_TEST_DATA "/templates/") + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The kernels of the functions that numbers.cuh declares.
std::string kernels_text() {
  return jit::str_cat("#include \"lang/contract.cuh\"\n", text_of("numbers.cuh"), R"(
struct Job { jitstep::uint32 first, stride, count; const double* in; jitstep::uint64* out; };
#define EACH \
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x; \
  if (i < job.count) job.out[i] =
extern "C" __global__ void narrow(const Job job) {
  EACH jitstep::narrowed(jitstep::float_of(job.first + i * job.stride));
}
extern "C" __global__ void compute_quickly(const Job job) {
  EACH jitstep::computed_quickly(jitstep::float_of(job.first + i * job.stride));
}
extern "C" __global__ void widen(const Job job) { EACH jitstep::widened(job.first + i); }
extern "C" __global__ void compute(const Job job) { EACH jitstep::computed_twice(i, job.in + 3 * i); }
)");
}

class Kernels {
 public:
  explicit Kernels(std::uint32_t most)
      : gpu_(jit::default_engine(), 1),
        kernel_(gpu_.load(kernels_text(), "numbers")),
        out_(gpu_.allocate(most * sizeof(uint64))) {}

  std::vector<uint64> run(const char* entry, Job job) {
    constexpr unsigned kThreads = 256;
    job.out = static_cast<uint64*>(out_.get());
    kernel_->cuda(entry).launch(nullptr, (job.count + kThreads - 1) / kThreads, kThreads, &job);
    std::vector<uint64> results(job.count);
    gpu_.download(results.data(), job.out, job.count * sizeof(uint64));
    return results;
  }

  std::shared_ptr<void> uploaded(const std::vector<double>& numbers) {
    auto memory = gpu_.allocate(numbers.size() * sizeof(double));
    gpu_.upload(memory.get(), numbers.data(), numbers.size() * sizeof(double));
    return memory;
  }

 private:
  GpuBackend gpu_;
  std::shared_ptr<const jit::Kernel> kernel_;
  std::shared_ptr<void> out_;
};

// How many of the results the CPU does not have. All processors compare.
uint64 different(const std::vector<uint64>& got, const Job& job, uint64 (*function)(float)) {
  std::atomic<uint64> count = 0;
  const std::size_t workers = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> threads;
  for (std::size_t worker = 0; worker < workers; ++worker)
    threads.emplace_back([&, worker] {
      uint64 own = 0;
      for (std::size_t i = worker * got.size() / workers; i < (worker + 1) * got.size() / workers;
           ++i)
        own += got[i] != function(float_of(job.first + static_cast<uint32>(i) * job.stride));
      count += own;
    });
  threads.clear();
  return count;
}

void expect_same_for_floats(const char* entry, uint64 (*function)(float)) {
  // An odd stride meets all kinds of floats.
  Job job = {0, 262147, 1u << 14, nullptr, nullptr};
  if (kAllFloats) job = {0, 1, 1u << 24, nullptr, nullptr};
  Kernels kernels(job.count);
  for (int part = 0; part < (kAllFloats ? 256 : 1); ++part, job.first += job.count)
    ASSERT_EQ(different(kernels.run(entry, job), job, function), 0u) << "from " << job.first;
}

TEST(GpuFormats, AreRoundedAsOnTheCpu) { expect_same_for_floats("narrow", narrowed); }

TEST(GpuArithmetic, HasTheSameBitsWithoutBranches) {
  expect_same_for_floats("compute_quickly", computed_quickly);
}

// With these significands, the result depends on the last bit of the approximation that it begins with.
TEST(GpuArithmetic, HasTheSameBitsWithoutBranchesForTheHardestOperands) {
  constexpr std::uint32_t kExponent = 1u << 23, kCount = 62;
  Kernels kernels(kCount);
  for (const float hard : {0x1.f82294p-100f, 0x1.9a2854p-99f, 0x1.b5c076p-99f, 0x1.dd26e4p-99f,
                           0x1.fffffep-100f, 0x1.fffffep-99f}) {
    const Job job = {bits_of(hard), 2 * kExponent, kCount, nullptr, nullptr};
    ASSERT_EQ(different(kernels.run("compute_quickly", job), job, computed_quickly), 0u) << hard;
  }
}

TEST(GpuFormats, AreReadAsOnTheCpu) {
  constexpr std::uint32_t kCodes = 1u << 16;
  const auto got = Kernels(kCodes).run("widen", {0, 1, kCodes, nullptr, nullptr});
  for (std::uint32_t code = 0; code < kCodes; ++code) ASSERT_EQ(got[code], widened(code)) << code;
}

// Any bits of a double, of a float, or one of the numbers where rounding is special.
double operand(std::mt19937_64& random) {
  const std::uint64_t bits = random();
  switch (random() % 4) {
    case 0:
      return double_of(bits);
    case 1:
      return float_of(static_cast<std::uint32_t>(bits));
    case 2:
      return float_of(static_cast<std::uint32_t>(bits) & 0x807fffffu);  // subnormal
    default:
      return static_cast<double>(static_cast<std::int64_t>(bits % 4096)) / 64 - 32;
  }
}

TEST(GpuArithmetic, HasTheBitsOfTheCpu) {
  const std::uint32_t count = kAllFloats ? 1u << 24 : 1u << 13;
  std::mt19937_64 random(1);
  std::vector<double> numbers(3 * std::size_t{count});
  for (double& x : numbers) x = operand(random);
  Kernels kernels(count);
  const auto in = kernels.uploaded(numbers);
  const auto got =
      kernels.run("compute", {0, 1, count, static_cast<const double*>(in.get()), nullptr});
  for (std::uint32_t i = 0; i < count; ++i) {
    const double* x = &numbers[3 * std::size_t{i}];
    ASSERT_EQ(got[i], computed_twice(i, x)) << x[0] << ", " << x[1] << ", " << x[2];
  }
}

}  // namespace
}  // namespace jitstep::support
