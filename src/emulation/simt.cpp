#include "emulation/simt.h"

#include <array>
#include <bit>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "emulation/fiber.h"
#include "emulation/random.h"

namespace jitstep::emulation {
namespace {

constexpr unsigned kWarpSize = 32;
constexpr unsigned kMaxBlock = 1024;
constexpr std::uint32_t kAllLanes = 0xffffffffu;
constexpr std::align_val_t kSharedAlignment{128};

enum State { kReady, kAtBlockBarrier, kAtWarpBarrier, kAtShuffle, kExited, kStates };
constexpr std::array<const char*, kStates> kStateNames = {
    "ready", "at a block barrier", "at a warp barrier", "at a warp shuffle", "exited"};

struct Warp {
  std::array<std::uint32_t, kStates> lanes = {kAllLanes};  // bit sets; each lane is in exactly one
  std::array<unsigned long long, kWarpSize> sent = {};
  std::array<unsigned long long, kWarpSize> received = {};
  std::array<int, kWarpSize> lane_mask = {};
  std::array<const void*, kWarpSize> call = {};  // return address of each lane's shuffle
};

struct FreeShared {
  void operator()(std::byte* memory) const { ::operator delete(memory, kSharedAlignment); }
};

struct Shared {
  unsigned site = 0;
  unsigned bytes = 0;
  std::unique_ptr<std::byte, FreeShared> memory;
};

// "3", "0-30", "0-3, 8, 12-15"
std::string ranges(const std::vector<unsigned>& lanes) {
  std::string text;
  for (std::size_t i = 0; i < lanes.size();) {
    std::size_t end = i + 1;
    while (end < lanes.size() && lanes[end] == lanes[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ", ") + std::to_string(lanes[i]);
    if (end - i > 1) text += "-" + std::to_string(lanes[end - 1]);
    i = end;
  }
  return text;
}

// Fibers are reused between launches. Each thread has its own pool.
std::vector<std::unique_ptr<Fiber>>& fibers(unsigned count) {
  thread_local std::vector<std::unique_ptr<Fiber>> pool;
  while (pool.size() < count) {
    pool.push_back(std::make_unique<Fiber>(static_cast<unsigned>(pool.size())));
  }
  return pool;
}

// A running launch. The functions that lanes call come first.
class Launch {
 public:
  Launch(void (*entry)(const void*), const void* args, const SimtLaunch& shape)
      : entry_(entry), args_(args), shape_(shape), random_(shape.seed) {}

  unsigned lane() const { return lane_; }
  unsigned block() const { return block_; }
  const SimtLaunch& shape() const { return shape_; }
  void wait(State state);
  unsigned long long shuffle_xor(unsigned long long bits, int lane_mask, const void* call);
  void* shared(unsigned bytes, unsigned site);

  void run();

 private:
  static void run_lane(void* self);
  void fail(const std::string& what);
  void stop() { (*fibers_)[lane_]->suspend(); }
  void run_block(unsigned index);
  void step();
  unsigned pick(std::uint32_t choices);
  unsigned pick_warp();
  void check_same_call(const Warp& warp);
  void release(State state, Warp& warp);
  void release_block();
  std::string where() const;
  std::string lanes_by_state() const;

  void (*entry_)(const void*);
  const void* args_;
  const SimtLaunch shape_;
  Random random_;

  std::vector<std::unique_ptr<Fiber>>* fibers_ = nullptr;
  std::vector<Warp> warps_;
  std::uint32_t ready_warps_ = 0;  // bit set: warps with a lane that can run
  unsigned lane_ = 0;              // the running lane
  unsigned block_ = 0;
  unsigned at_block_barrier_ = 0;
  unsigned exited_ = 0;
  std::vector<Shared> shared_;
  std::exception_ptr failure_;
};

void Launch::wait(State state) {
  Warp& warp = warps_[lane_ / kWarpSize];
  const std::uint32_t bit = 1u << lane_ % kWarpSize;
  warp.lanes[kReady] &= ~bit;
  warp.lanes[state] |= bit;
  if (state == kAtBlockBarrier) {
    if (++at_block_barrier_ == shape_.block) release_block();
  } else if (warp.lanes[state] == kAllLanes) {
    if (state == kAtShuffle) check_same_call(warp);
    release(state, warp);
  }
  stop();
}

unsigned long long Launch::shuffle_xor(unsigned long long bits, int lane_mask, const void* call) {
  if (lane_mask < 0 || lane_mask >= static_cast<int>(kWarpSize)) {
    fail("shuffles with lane mask " + std::to_string(lane_mask) + ", outside [0, 32)");
    stop();
  }
  Warp& warp = warps_[lane_ / kWarpSize];
  const unsigned lane = lane_ % kWarpSize;
  warp.sent[lane] = bits;
  warp.lane_mask[lane] = lane_mask;
  warp.call[lane] = call;
  wait(kAtShuffle);
  return warp.received[lane];
}

void* Launch::shared(unsigned bytes, unsigned site) {
  for (const Shared& one : shared_) {
    if (one.site != site) continue;
    if (one.bytes != bytes) {
      fail("requests " + std::to_string(bytes) + " bytes of shared memory at site " +
           std::to_string(site) + ", but another lane requested " + std::to_string(one.bytes));
      stop();
    }
    return one.memory.get();
  }
  auto* memory = static_cast<std::byte*>(::operator new(bytes, kSharedAlignment));
  shared_.push_back({site, bytes, std::unique_ptr<std::byte, FreeShared>(memory)});
  std::memset(memory, 0xCC, bytes);
  return memory;
}

// A failing lane calls stop() in a separate statement, because objects that are alive on its stack then, temporaries
// included, are never destroyed.
void Launch::fail(const std::string& what) {
  failure_ = std::make_exception_ptr(
      std::runtime_error(where() + ": lane " + std::to_string(lane_) + " " + what));
}

void Launch::run_lane(void* self) {
  Launch& launch = *static_cast<Launch*>(self);
  try {
    launch.entry_(launch.args_);
  } catch (...) {
    launch.failure_ = std::current_exception();
  }
  Warp& warp = launch.warps_[launch.lane_ / kWarpSize];
  const std::uint32_t bit = 1u << launch.lane_ % kWarpSize;
  warp.lanes[kReady] &= ~bit;
  warp.lanes[kExited] |= bit;
  ++launch.exited_;
}

void Launch::run() {
  std::vector<unsigned> blocks(shape_.grid);
  std::iota(blocks.begin(), blocks.end(), 0u);
  if (shape_.order == BlockOrder::kReverse) {
    std::iota(blocks.rbegin(), blocks.rend(), 0u);
  } else if (shape_.order == BlockOrder::kShuffled) {
    for (std::size_t i = blocks.size(); i > 1; --i) {
      std::swap(blocks[i - 1], blocks[random_.next() % i]);
    }
  }
  fibers_ = &fibers(shape_.block);
  for (unsigned index : blocks) run_block(index);
}

void Launch::run_block(unsigned index) {
  block_ = index;
  warps_.assign(shape_.block / kWarpSize, Warp());
  ready_warps_ = kAllLanes >> (kWarpSize - warps_.size());
  at_block_barrier_ = exited_ = 0;
  shared_.clear();
  for (unsigned i = 0; i < shape_.block; ++i) (*fibers_)[i]->start(run_lane, this);
  while (ready_warps_ != 0 && !failure_) step();
  if (failure_) std::rethrow_exception(failure_);
  if (exited_ == shape_.block) return;
  throw std::runtime_error(where() + " is deadlocked: " + lanes_by_state() +
                           ". Every lane of a warp must reach each warp barrier and shuffle, and "
                           "every lane of a block each block barrier");
}

// Runs one lane until it waits or exits.
void Launch::step() {
  const unsigned warp = pick_warp();
  lane_ = warp * kWarpSize + pick(warps_[warp].lanes[kReady]);
  (*fibers_)[lane_]->resume();
  if (warps_[warp].lanes[kReady] == 0) ready_warps_ &= ~(1u << warp);
}

unsigned Launch::pick(std::uint32_t choices) {
  if (shape_.lanes == LaneOrder::kForward) return static_cast<unsigned>(std::countr_zero(choices));
  if (shape_.lanes == LaneOrder::kReverse) {
    return 31 - static_cast<unsigned>(std::countl_zero(choices));
  }
  const unsigned turn = random_.next() % 32;
  return (static_cast<unsigned>(std::countr_zero(std::rotr(choices, static_cast<int>(turn)))) +
          turn) %
         32;
}

// The random order mostly stays with one warp. If it selected a new warp at each step, all warps would advance at
// nearly the same pace, and shuffles would hide missing block barriers.
unsigned Launch::pick_warp() {
  const unsigned last = lane_ / kWarpSize;
  const bool can_stay = (ready_warps_ >> last & 1) != 0;
  if (shape_.lanes == LaneOrder::kRandom && can_stay && random_.next() % 64 != 0) return last;
  return pick(ready_warps_);
}

// On a GPU, a shuffle exchanges values only between lanes at the same instruction, not between two arms of a branch.
void Launch::check_same_call(const Warp& warp) {
  const unsigned lane = lane_ % kWarpSize, first = lane_ - lane;
  std::vector<unsigned> elsewhere;
  for (unsigned i = 0; i < kWarpSize; ++i) {
    if (warp.call[i] != warp.call[lane]) elsewhere.push_back(first + i);
  }
  if (elsewhere.empty()) return;
  fail("is at another shuffle than lanes " + ranges(elsewhere) +
       " of its warp. All lanes of a warp must shuffle at the same call");
}

// The results of a shuffle are copied, because a lane may reach its next shuffle before the others resume.
void Launch::release(State state, Warp& warp) {
  if (state == kAtShuffle) {
    for (unsigned i = 0; i < kWarpSize; ++i) {
      warp.received[i] = warp.sent[i ^ static_cast<unsigned>(warp.lane_mask[i])];
    }
  }
  warp.lanes[state] = 0;
  warp.lanes[kReady] = kAllLanes;
}

void Launch::release_block() {
  at_block_barrier_ = 0;
  for (Warp& warp : warps_) release(kAtBlockBarrier, warp);
  ready_warps_ = kAllLanes >> (kWarpSize - warps_.size());
}

std::string Launch::where() const {
  return "simt: block " + std::to_string(block_) + " of " + std::to_string(shape_.grid) + " (" +
         std::to_string(shape_.block) + " lanes)";
}

std::string Launch::lanes_by_state() const {
  std::string text;
  for (unsigned state = 0; state < kStates; ++state) {
    std::vector<unsigned> lanes;
    for (unsigned i = 0; i < shape_.block; ++i) {
      if (warps_[i / kWarpSize].lanes[state] >> i % kWarpSize & 1) lanes.push_back(i);
    }
    if (lanes.empty()) continue;
    text +=
        (text.empty() ? "" : "; ") + std::string(kStateNames[state]) + ": lanes " + ranges(lanes);
  }
  return text;
}

thread_local Launch* current_launch = nullptr;

Launch& current() {
  if (current_launch == nullptr) {
    throw std::logic_error("simt: a device function was called outside of a launch on this thread");
  }
  return *current_launch;
}

void check_shape(const SimtLaunch& launch) {
  const std::string shape =
      std::to_string(launch.grid) + " blocks of " + std::to_string(launch.block) + " lanes";
  if (launch.grid == 0 || launch.block == 0) {
    throw std::runtime_error("simt: nothing to launch: " + shape);
  }
  if (launch.block % kWarpSize != 0 || launch.block > kMaxBlock) {
    throw std::runtime_error("simt: cannot launch " + shape +
                             ": a block must have whole warps of 32 lanes, at most 1024 lanes");
  }
  if (current_launch != nullptr) {
    throw std::runtime_error("simt: a lane cannot launch " + shape);
  }
}

// The return address is that of the shuffle in the kernel. A lambda would be called by a function of the compiler,
// which is inlined only with optimization.
unsigned long long shuffle_xor(unsigned long long bits, int lane_mask) {
  return current().shuffle_xor(bits, lane_mask, __builtin_return_address(0));
}

}  // namespace

const SimtBackend* simt_backend() {
  static constexpr SimtBackend kBackend = {
      .thread_index = [] { return current().lane(); },
      .block_size = [] { return current().shape().block; },
      .block_index = [] { return current().block(); },
      .grid_size = [] { return current().shape().grid; },
      .block_barrier = [] { current().wait(kAtBlockBarrier); },
      .warp_barrier = [] { current().wait(kAtWarpBarrier); },
      .shuffle_xor = &shuffle_xor,
      .shared = [](unsigned bytes, unsigned site) { return current().shared(bytes, site); },
  };
  return &kBackend;
}

void simt_launch(void (*entry)(const void*), const void* args, SimtLaunch shape) {
  check_shape(shape);
  struct Current {
    explicit Current(Launch* launch) { current_launch = launch; }
    ~Current() { current_launch = nullptr; }
  };
  Launch launch(entry, args, shape);
  const Current current(&launch);
  launch.run();
}

}  // namespace jitstep::emulation
