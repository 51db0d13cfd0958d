// The SIMT emulation itself: its results, and its detection of mistakes.
#include "emulation/simt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace jitstep::emulation {
namespace {

constexpr LaneOrder kLaneOrders[] = {LaneOrder::kForward, LaneOrder::kReverse, LaneOrder::kRandom};
constexpr BlockOrder kBlockOrders[] = {BlockOrder::kForward, BlockOrder::kReverse,
                                       BlockOrder::kShuffled};

const SimtBackend& backend() { return *simt_backend(); }

template <class T>
T* shared_array(unsigned count, unsigned site) {
  return static_cast<T*>(backend().shared(count * unsigned{sizeof(T)}, site));
}

template <class T>
const T& arguments(const void* args) {
  return *static_cast<const T*>(args);
}

// The error of simt_launch, or "" if there is none.
std::string complaint(void (*entry)(const void*), SimtLaunch launch) {
  try {
    simt_launch(entry, nullptr, launch);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Sums in a fixed tree: shuffles inside a warp, then warp 0 sums the warps' results.
struct Sum {
  const float* in;
  float* out;  // one per block
};

float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) {
    const auto other = backend().shuffle_xor(std::bit_cast<std::uint32_t>(x), step);
    x += std::bit_cast<float>(static_cast<std::uint32_t>(other));
  }
  return x;
}

void sum_entry(const void* args) {
  const auto& a = arguments<Sum>(args);
  const unsigned lane = backend().thread_index(), size = backend().block_size();
  const unsigned block = backend().block_index();
  float* partial = shared_array<float>(32, 0);
  const float own = warp_sum(a.in[block * size + lane]);
  if (lane % 32 == 0) partial[lane / 32] = own;
  backend().block_barrier();
  if (lane >= 32) return;  // whole warps may return early
  const float total = warp_sum(lane < size / 32 ? partial[lane] : 0.0f);
  if (lane == 0) a.out[block] = total;
}

float serial_warp_sum(std::array<float, 32> x) {
  for (std::size_t step = 16; step > 0; step /= 2) {
    for (std::size_t i = 0; i < step; ++i) x[i] += x[i + step];
  }
  return x[0];
}

float serial_sum(const float* in, unsigned size) {
  std::array<float, 32> partial = {};
  for (unsigned warp = 0; warp < size / 32; ++warp) {
    std::array<float, 32> x = {};
    std::copy_n(in + warp * 32, 32, x.begin());
    partial[warp] = serial_warp_sum(x);
  }
  return serial_warp_sum(partial);
}

TEST(Simt, TreeReductionEqualsSerialInEveryOrder) {
  for (unsigned block : {32u, 96u, 256u, 1024u}) {
    constexpr unsigned kGrid = 9;
    std::vector<float> in(kGrid * block), expected(kGrid);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = 1.0f / static_cast<float>(3 * i + 1);
    for (unsigned i = 0; i < kGrid; ++i) expected[i] = serial_sum(&in[i * block], block);
    for (BlockOrder order : kBlockOrders) {
      for (LaneOrder lanes : kLaneOrders) {
        std::vector<float> out(kGrid, -1);
        const Sum args{in.data(), out.data()};
        simt_launch(sum_entry, &args, {kGrid, block, order, lanes, 5});
        EXPECT_EQ(out, expected) << block << " lanes";
      }
    }
  }
}

// Transposes 16 x 16 tiles, one per block, several times through the same shared memory.
struct Transposition {
  int* tile;
  bool barrier_before_read, barrier_before_write;
};

void transpose_entry(const void* args) {
  const auto& a = arguments<Transposition>(args);
  const unsigned lane = backend().thread_index();
  int* tile = a.tile + backend().block_index() * 256;
  int* shared = shared_array<int>(256, 7);
  for (int round = 0; round < 3; ++round) {
    shared[lane] = tile[lane];
    if (a.barrier_before_read) backend().block_barrier();
    backend().shuffle_xor(0, 1);  // synchronizes warps, but not the block
    tile[lane] = shared[lane % 16 * 16 + lane / 16];
    if (a.barrier_before_write) backend().block_barrier();
  }
}

bool transposes(Transposition args, SimtLaunch launch) {
  std::vector<int> tiles(launch.grid * 256), expected(launch.grid * 256);
  for (unsigned i = 0; i < tiles.size(); ++i) {
    tiles[i] = static_cast<int>(i);
    expected[i] = static_cast<int>(i / 256 * 256 + i % 16 * 16 + i % 256 / 16);
  }
  args.tile = tiles.data();
  simt_launch(transpose_entry, &args, launch);
  return tiles == expected;
}

TEST(Simt, TransposesThroughSharedMemory) {
  for (BlockOrder order : kBlockOrders) {
    for (LaneOrder lanes : kLaneOrders) {
      EXPECT_TRUE(transposes({nullptr, true, true}, {20, 256, order, lanes, 3}));
    }
  }
}

TEST(Simt, DetectsAMissingBarrier) {
  for (LaneOrder lanes : kLaneOrders) {
    const SimtLaunch launch{1, 256, BlockOrder::kForward, lanes, 1};
    EXPECT_FALSE(transposes({nullptr, false, true}, launch)) << "write, then read";
    EXPECT_FALSE(transposes({nullptr, true, false}, launch)) << "read, then write";
  }
}

// Each lane reads the value that its neighbor wrote, without a barrier.
struct Neighbor {
  int* out;
  unsigned distance;  // modulo 64
  bool barrier;
};

void neighbor_entry(const void* args) {
  const auto& a = arguments<Neighbor>(args);
  const unsigned lane = backend().thread_index();
  int* shared = shared_array<int>(64, 0);
  shared[lane] = static_cast<int>(lane);
  if (a.barrier) backend().block_barrier();
  a.out[lane] = shared[(lane + a.distance) % 64];
}

int wrong_neighbors(unsigned distance, bool barrier, LaneOrder lanes, std::uint64_t seed = 0) {
  std::array<int, 64> out = {};
  const Neighbor args{out.data(), distance, barrier};
  simt_launch(neighbor_entry, &args, {1, 64, BlockOrder::kForward, lanes, seed});
  int wrong = 0;
  for (unsigned i = 0; i < 64; ++i) wrong += out[i] != static_cast<int>((i + distance) % 64);
  return wrong;
}

TEST(Simt, TheOrderDeterminesWhichRacesShow) {
  EXPECT_EQ(wrong_neighbors(1, false, LaneOrder::kForward), 63);
  EXPECT_EQ(wrong_neighbors(63, false, LaneOrder::kForward), 1);
  EXPECT_EQ(wrong_neighbors(63, false, LaneOrder::kReverse), 63);
  EXPECT_EQ(wrong_neighbors(1, false, LaneOrder::kReverse), 1);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const int wrong = wrong_neighbors(1, false, LaneOrder::kRandom, seed);
    EXPECT_GT(wrong, 5);
    EXPECT_LT(wrong, 59);
    EXPECT_EQ(wrong, wrong_neighbors(1, false, LaneOrder::kRandom, seed)) << "a seed repeats";
    EXPECT_EQ(wrong_neighbors(1, true, LaneOrder::kRandom, seed), 0);
  }
}

TEST(Simt, SharedMemoryIsGarbageAtTheStartOfEachBlock) {
  const auto entry = [](const void*) {
    const unsigned lane = backend().thread_index();
    auto* a = shared_array<std::uint8_t>(64, 0);
    auto* b = shared_array<std::uint8_t>(100, 1);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b) % 128, 0u);
    EXPECT_TRUE(a[lane] == 0xCC && b[lane] == 0xCC);
    backend().block_barrier();
    a[lane] = b[lane] = 1;
  };
  simt_launch(entry, nullptr, {.grid = 3, .block = 64});
}

TEST(Simt, AWarpBarrierOrdersAWarp) {
  const auto entry = [](const void*) {
    const unsigned lane = backend().thread_index();
    unsigned* shared = shared_array<unsigned>(64, 0);
    shared[lane] = lane;
    backend().warp_barrier();
    EXPECT_EQ(shared[lane ^ 5], lane ^ 5);
  };
  for (LaneOrder lanes : kLaneOrders) simt_launch(entry, nullptr, {1, 64, {}, lanes, 9});
}

TEST(Simt, ShuffleCarries64BitsAndAMaskPerLane) {
  const auto entry = [](const void*) {
    const unsigned lane = backend().thread_index() % 32;
    const unsigned long long own = 0x123456789abcde00ull + backend().thread_index();
    const unsigned long long lane_9 = backend().shuffle_xor(own, static_cast<int>(lane ^ 9));
    EXPECT_EQ(lane_9, own - lane + 9);
  };
  for (LaneOrder lanes : kLaneOrders) simt_launch(entry, nullptr, {2, 96, {}, lanes, 2});
}

TEST(Simt, BlocksRunInTheRequestedOrder) {
  std::vector<unsigned> seen;
  const auto entry = [](const void* args) {
    EXPECT_EQ(backend().grid_size(), 50u);
    auto* list = *static_cast<std::vector<unsigned>* const*>(args);
    if (backend().thread_index() == 0) list->push_back(backend().block_index());
  };
  const auto run = [&](BlockOrder order) {
    seen.clear();
    auto* args = &seen;
    simt_launch(entry, &args, {.grid = 50, .order = order, .seed = 4});
    return seen;
  };
  std::vector<unsigned> forward(50);
  std::iota(forward.begin(), forward.end(), 0u);
  EXPECT_EQ(run(BlockOrder::kForward), forward);
  EXPECT_EQ(run(BlockOrder::kReverse), std::vector<unsigned>(forward.rbegin(), forward.rend()));
  EXPECT_NE(run(BlockOrder::kShuffled), forward);
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, forward);
}

TEST(Simt, ReportsALaneThatExited) {
  const auto entry = [](const void*) {
    if (backend().block_index() == 2 && backend().thread_index() == 37) return;
    backend().shuffle_xor(1, 1);
  };
  for (LaneOrder lanes : kLaneOrders) {
    const std::string message = complaint(entry, {4, 64, BlockOrder::kForward, lanes, 1});
    EXPECT_TRUE(has(message, "block 2 of 4 (64 lanes)")) << message;
    EXPECT_TRUE(has(message, "at a warp shuffle: lanes 32-36, 38-63")) << message;
    EXPECT_TRUE(has(message, "exited: lanes 0-31, 37")) << message;
  }
  const auto barrier = [](const void*) {
    if (backend().thread_index() != 63) backend().block_barrier();
  };
  const std::string message = complaint(barrier, {1, 64});
  EXPECT_TRUE(has(message, "at a block barrier: lanes 0-62; exited: lanes 63")) << message;
}

TEST(Simt, ReportsLanesThatWaitAtDifferentOperations) {
  const auto entry = [](const void*) {
    const unsigned lane = backend().thread_index();
    if (lane < 8) backend().shuffle_xor(0, 1);
    if (lane % 2 == 0) backend().warp_barrier();
    backend().block_barrier();
  };
  for (LaneOrder lanes : kLaneOrders) {
    const std::string message = complaint(entry, {1, 32, BlockOrder::kForward, lanes});
    EXPECT_TRUE(has(message, "at a warp shuffle: lanes 0-7")) << message;
    EXPECT_TRUE(has(message, "at a warp barrier: lanes 8, 10, 12")) << message;
    EXPECT_TRUE(has(message, "at a block barrier: lanes 9, 11, 13")) << message;
  }
}

// Two teams of 16 lanes take different branches, each with its own shuffle. The comments in assembly keep clang from
// merging the two calls.
void apart_entry(const void* args) {
  auto* out = arguments<std::array<unsigned long long, 32>*>(args)->data();
  const unsigned lane = backend().thread_index();
  if (lane < 16) {
    asm volatile("# lanes 0-15");
    out[lane] = backend().shuffle_xor(lane, 8) + 1;
  } else {
    asm volatile("# lanes 16-31");
    out[lane] = backend().shuffle_xor(lane, 8) * 3;
  }
}

TEST(Simt, RejectsShufflesInDivergedTeams) {
  std::array<unsigned long long, 32> out = {};
  auto* const where = &out;
  for (LaneOrder lanes : kLaneOrders) {
    try {
      simt_launch(apart_entry, &where, {1, 32, BlockOrder::kForward, lanes, 1});
      FAIL() << "half a warp may shuffle alone";
    } catch (const std::runtime_error& error) {
      const std::string message = error.what();
      EXPECT_TRUE(has(message, "at another shuffle than lanes 0-15 of its warp") ||
                  has(message, "at another shuffle than lanes 16-31 of its warp"))
          << message;
    }
  }
}

TEST(Simt, ReportsOtherMisuse) {
  const auto mask = [](const void*) { backend().shuffle_xor(0, 32); };
  EXPECT_TRUE(has(complaint(mask, {1, 32}), "lane 0 shuffles with lane mask 32"));
  const auto sizes = [](const void*) { backend().shared(8 + backend().thread_index(), 3); };
  EXPECT_TRUE(has(complaint(sizes, {1, 32}), "requests 9 bytes of shared memory at site 3"));
  const auto nested = [](const void*) { simt_launch([](const void*) {}, nullptr, {1, 32}); };
  EXPECT_TRUE(has(complaint(nested, {1, 32}), "a lane cannot launch"));
  const auto idle = [](const void*) {};
  EXPECT_TRUE(has(complaint(idle, {1, 48}), "whole warps"));
  EXPECT_TRUE(has(complaint(idle, {1, 2048}), "at most 1024"));
  EXPECT_TRUE(has(complaint(idle, {0, 32}), "nothing to launch"));
  EXPECT_TRUE(has(complaint(idle, {1, 0}), "nothing to launch"));
  EXPECT_THROW(backend().thread_index(), std::logic_error);
}

TEST(Simt, RethrowsTheExceptionOfALane) {
  const auto entry = [](const void*) {
    if (backend().thread_index() == 33) throw std::out_of_range("index");
    backend().block_barrier();
  };
  for (LaneOrder lanes : kLaneOrders) {
    EXPECT_THROW(simt_launch(entry, nullptr, {3, 64, {}, lanes}), std::out_of_range);
  }
  EXPECT_TRUE(transposes({nullptr, true, true}, {2, 256})) << "after an abandoned block";
}

// Stacks of lanes that were abandoned inside large frames must be usable again.
TEST(Simt, SurvivesManyAbandonedBlocks) {
  const auto entry = [](const void*) {
    volatile char frame[5000];
    for (volatile char& c : frame) c = 1;
    if (backend().thread_index() != 0) backend().block_barrier();
    EXPECT_EQ(frame[4999], 1);
  };
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(has(complaint(entry, {1, 256}), "exited: lanes 0."));
  }
  EXPECT_TRUE(transposes({nullptr, true, true}, {1, 256}));
}

TEST(Simt, RoundingModesStayWithTheirLane) {
  const auto entry = [](const void*) {
    const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    EXPECT_EQ(std::fegetround(), FE_TONEAREST);
    std::fesetround(modes[backend().thread_index() % 4]);
    backend().block_barrier();
    EXPECT_EQ(std::fegetround(), modes[backend().thread_index() % 4]);
  };
  for (LaneOrder lanes : kLaneOrders) simt_launch(entry, nullptr, {2, 64, {}, lanes, 6});
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
}

TEST(Simt, ThreadsLaunchIndependently) {
  const auto run = [] { EXPECT_TRUE(transposes({nullptr, true, true}, {40, 256})); };
  std::array<std::thread, 3> threads = {std::thread(run), std::thread(run), std::thread(run)};
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace jitstep::emulation
