// Tensors of more than 2^32 elements without their memory: the test reserves address space and runs only the work items
// around 2^31, 2^32 and the end. A small tensor at the same element numbers must give the same bits, on the CPU and
// under emulation.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <random>

#include "emulation/emulated_backend.h"
#include "jit/base/args.h"
#include "jit/codegen/unit.h"
#include "jit/step/step_tables.h"
#include "jitstep/jit/engine.h"
#include "support/bits.h"

namespace jitstep::support {
namespace {

using jit::Dtype;

constexpr std::int64_t kItem = 4096;  // elements of a work item
constexpr std::int64_t kElements = (std::int64_t{1} << 32) + kItem + 77;
constexpr std::int64_t kWindows[] = {0, (std::int64_t{1} << 31) - kItem, std::int64_t{1} << 31,
                                     (std::int64_t{1} << 32) - kItem, kElements - 77};

// Zeros that use memory only where something writes.
class ReservedMemory {
 public:
  explicit ReservedMemory(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    void* const p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
  }
  ReservedMemory(ReservedMemory&& other) noexcept : bytes_(other.bytes_), data_(other.data_) {
    other.data_ = nullptr;
  }
  ~ReservedMemory() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  std::byte* data() const { return data_; }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

// A tensor of one kernel, and the tables for a step of some of its items.
struct WindowedTensor {
  std::vector<ReservedMemory> memory;
  std::vector<std::int64_t> bits;  // per element, for each memory
  jit::StepTensor tensor;
  const void* g = nullptr;
  jit::StepTables tables;
  std::vector<double*> partials;  // [reduction]
};

std::byte* reserve(WindowedTensor& windowed, std::int64_t elements, std::int64_t bits) {
  windowed.memory.emplace_back((elements * bits + 7) / 8 + 64);
  windowed.bits.push_back(bits);
  return windowed.memory.back().data();
}

// `gap`: distance between adjacent elements of p.
WindowedTensor make_windowed(const jit::Plan& plan, std::int64_t n, std::int64_t offset,
                             std::int64_t gap, const KernelConfig& config) {
  WindowedTensor windowed;
  const jit::KernelSpec& spec = plan.spec;
  windowed.tensor.p = reserve(windowed, n, 8 * jit::bytes_of(spec.state.dtype) * gap);
  windowed.g = reserve(windowed, n, 8 * jit::bytes_of(spec.gradient));
  for (std::size_t slot = 0; slot < spec.state.slots.size(); ++slot) {
    windowed.tensor.slots.emplace_back();
    const jit::Manifest* const codec = plan.codec(static_cast<int>(slot));
    if (codec == nullptr) continue;
    windowed.tensor.slots.back().codes = reserve(windowed, n, codec->code_bits(spec.state.dtype));
    if (codec->meta_bytes() > 0)
      windowed.tensor.slots.back().meta = reserve(windowed, n, 8 * codec->meta_bytes());
    if (codec->meta_bytes() > 0) windowed.bits.back() = 0;  // compared below by block
  }
  windowed.tensor.shape = {{n}, {gap}};
  windowed.tensor.g_strides = {1};
  windowed.tensor.offset = offset;
  windowed.tables = jit::step_tables({windowed.tensor}, plan.reductions, plan.passes, config);
  for (const auto& r : plan.reductions)
    windowed.partials.push_back(reinterpret_cast<double*>(
        reserve(windowed,
                r.pass < 0 ? 1 : windowed.tables.partial_count[r.reduction_layout] * r.terms, 64)));
  return windowed;
}

HyperParams numbers(const std::string& rule, std::int64_t t) {
  jit::OptionValues options(rule);
  HyperParams set{};
  const auto hyper = options.hyper();
  std::copy(hyper.begin(), hyper.end(), set.hyper);
  set.t = t;
  set.seed = 5;
  return set;
}

// Runs one entry for one work item.
void run(jit::Launches& launches, int entry, const jit::StepTables::Items& items, std::size_t item,
         const jit::Plan& plan, const WindowedTensor& windowed, std::int64_t t) {
  const HyperParams set = numbers(plan.spec.rule, t);
  const StepRecord step{windowed.g, nullptr, {}, {}, 0, windowed.tables.layout[0] | kAligned};
  Args args{};
  args.tensors = windowed.tables.tensors.data();
  args.steps = &step;
  args.hyper_params = &set;
  args.items = &items.at(item);
  args.item_count = args.tensor_count = 1;
  for (std::size_t i = 0; i < plan.reductions.size(); ++i)
    if (plan.reductions[i].active())
      args.reductions[plan.reductions[i].number].partials = windowed.partials[i];
  launches.launch(entry, args);
}

void fill(std::byte* p, Dtype dtype, std::int64_t elements, std::int64_t gap, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  for (std::int64_t i = 0; i < elements; ++i) {
    const float value = normal(random);
    std::uint32_t word;
    std::memcpy(&word, &value, 4);
    const auto high = static_cast<std::uint16_t>(word >> 16);
    if (dtype == Dtype::bfloat16) std::memcpy(p + 2 * i * gap, &high, 2);
    if (dtype == Dtype::float32) std::memcpy(p + 4 * i * gap, &value, 4);
  }
}

class LargeTensor {
 public:
  LargeTensor(jit::KernelSpec spec, std::int64_t gap) : gap_(gap) {
    spec.strided = gap > 1;
    plan_ = jit::resolve(spec);
  }

  void compare(jit::Backend& backend) {
    const KernelConfig config = jit::default_kernel_config(plan_, backend.target());
    ASSERT_EQ(config.leaves_per_item * kLeaf, kItem);
    const jit::Unit unit = jit::unit(plan_, config, backend.target());
    const auto launches =
        backend.launches(backend.load(unit.text, unit.name), unit.entries, config);
    const WindowedTensor huge = make_windowed(plan_, kElements, 0, gap_, config);
    for (const ReservedMemory& memory : huge.memory)
      if (memory.data() == nullptr) GTEST_SKIP() << "no address space to reserve";
    for (const std::int64_t window : kWindows) {
      SCOPED_TRACE(window);
      const std::int64_t n = std::min(kItem, kElements - window);
      const WindowedTensor small = make_windowed(plan_, n, window, gap_, config);
      const auto p_bytes = jit::bytes_of(plan_.spec.state.dtype),
                 g_bytes = jit::bytes_of(plan_.spec.gradient);
      for (const auto& [windowed, first] :
           {std::pair(&huge, window), std::pair(&small, std::int64_t{0})}) {
        fill(windowed->memory[0].data() + first * p_bytes * gap_, plan_.spec.state.dtype, n, gap_,
             1);
        fill(windowed->memory[1].data() + first * g_bytes, plan_.spec.gradient, n, 1, 2);
        const auto item = static_cast<std::size_t>(first / kItem);
        const std::vector<int>& partials = unit.index.partials;
        for (std::size_t pass = 0; pass < partials.size(); ++pass)
          run(*launches, partials[pass], windowed->tables.partials[pass], item, plan_, *windowed,
              1);
        for (int t = 1; partials.empty() && t <= 2; ++t)
          run(*launches, unit.index.apply, windowed->tables.apply, item, plan_, *windowed, t);
      }
      expect_same(huge, small, window, n);
    }
  }

 private:
  void expect_same(const WindowedTensor& huge, const WindowedTensor& small, std::int64_t window,
                   std::int64_t n) {
    const auto same = [](const void* a, const void* b, std::int64_t bytes) {
      return std::memcmp(a, b, static_cast<std::size_t>(bytes)) == 0;
    };
    for (std::size_t i = 0; i < huge.memory.size() - huge.partials.size(); ++i) {
      EXPECT_TRUE(same(huge.memory[i].data() + window * huge.bits[i] / 8, small.memory[i].data(),
                       (n * huge.bits[i] + 7) / 8))
          << "memory " << i;
    }
    for (std::size_t s = 0; s < plan_.spec.state.slots.size(); ++s) {
      if (huge.tensor.slots[s].meta == nullptr) continue;
      const std::int64_t block = plan_.block(static_cast<int>(s));
      const std::int64_t bytes = plan_.codec(static_cast<int>(s))->meta_bytes();
      EXPECT_TRUE(same(static_cast<std::byte*>(huge.tensor.slots[s].meta) + window / block * bytes,
                       small.tensor.slots[s].meta, (n + block - 1) / block * bytes))
          << "meta of slot " << s;
    }
    const auto& reductions = plan_.reductions;
    for (std::size_t i = 0; i < reductions.size(); ++i)
      if (reductions[i].pass >= 0)
        for (int term = 0; term < reductions[i].terms; ++term) {
          const double sum = huge.partials[i][window / kItem * reductions[i].terms + term];
          EXPECT_EQ(sum, small.partials[i][term]) << "term " << term;
          EXPECT_NE(sum, 0) << "term " << term;
        }
  }

  jit::Plan plan_;
  std::int64_t gap_;
};

void expect_right(const jit::KernelSpec& spec, std::int64_t gap = 1) {
  const auto serial = [](std::int64_t n, std::int64_t, const auto& body) { body(0, n); };
  jit::CpuBackend cpu(jit::default_engine(), serial);
  EmulatedBackend gpu(jit::default_engine(), 1, BlockOrder::kForward, LaneOrder::kForward);
  LargeTensor(spec, gap).compare(cpu);
  LargeTensor(spec, gap).compare(gpu);
}

jit::KernelSpec large_spec(const std::string& rule, const std::string& codec,
                           const std::string& weights = "native", Dtype dtype = Dtype::bfloat16) {
  jit::KernelSpec spec = spec_of(rule, codec, weights, dtype, Dtype::bfloat16);
  jit::OptionValues options(rule);
  spec.flags = options.flags();
  spec.gradient_flags = options.gradient_flags();
  const auto& slots = jit::default_catalog().rule(rule).slots;
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (!jit::is_stored(slots[i], spec.flags)) spec.state.slots[i].reset();
  return spec;
}

TEST(LargeTensor, EveryCodecFindsItsElementsAndBlocks) {
  for (const char* codec : {"fp32", "bf16", "int8", "int4"}) {
    SCOPED_TRACE(codec);
    expect_right(large_spec("adamw", codec));
  }
}

TEST(LargeTensor, RandomBitsDependOnTheElementsNumber) {
  expect_right(large_spec("adamw", "int8", "stochastic"));
}

TEST(LargeTensor, GapsAreSkipped) {
  expect_right(large_spec("adamw", "int4", "native", Dtype::float32), 3);
}

TEST(LargeTensor, SumsUseTheirOwnLeavesAndPartials) {
  for (const char* codec : {"fp32", "int8"}) {
    SCOPED_TRACE(codec);
    expect_right(large_spec("lamb", codec));
  }
}

}  // namespace
}  // namespace jitstep::support
