// 32 lanes that execute a program. Lanes at the same instruction run together, other groups run one after the other. A
// barrier or shuffle waits until all lanes that it names have arrived.
#pragma once

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "support/ptx/memory.h"
#include "support/ptx/program.h"

namespace jitstep::ptx {

/// Counters of executed work.
struct Counts {
  std::uint64_t instructions = 0;       // per lane
  std::uint64_t warp_instructions = 0;  // per warp
  std::uint64_t sectors_read =
      0;  // of 32 bytes of global memory, counted per instruction of a warp
  std::uint64_t sectors_written = 0;
};

/// State that the lanes of a block share.
struct Block {
  Block(const Program& p, Memory& m, int on_device)
      : program(p),
        memory(m),
        device(on_device),
        shared(shared_bytes(p)),
        shadow(shared.size(), Shadow::Unwritten::readable) {}

  static std::size_t shared_bytes(const Program& program);
  void begin(std::uint32_t number);

  const Program& program;
  Memory& memory;
  int device;
  const std::byte* params = nullptr;  // of the kernel
  std::uint32_t param_bytes = 0;
  std::uint32_t number = 0, threads = 0, grid = 0;
  std::vector<std::byte> shared;
  Shadow shadow;
  std::uint32_t launch = 0;
  const Order* order = nullptr;
  std::uint32_t clock = 1;         // counts the barriers
  std::uint32_t barrier_time = 1;  // time of the last block barrier
  Counts counts;
};

class Warp {
 public:
  Warp(Block& block, std::uint32_t number);

  /// Starts at the entry, with all of the block's lanes in this warp.
  void begin(std::uint32_t pc);
  /// Runs until all lanes have exited or wait for other warps. Throws a Fault with kLaunchFailed if they wait for lanes
  /// that will not come.
  void run();
  bool has_left() const { return live_ == 0; }
  /// Whether no lane has exited.
  bool is_whole() const { return live_ == all_; }
  /// The instruction of the barrier at which all lanes wait.
  std::uint32_t barrier() const { return pcs_[static_cast<std::size_t>(std::countr_zero(live_))]; }
  void pass_barrier();
  /// The line of the current instruction, or of one at which lanes wait.
  int line() const;
  /// "warp 1, lanes 0x000000ff at line 12 (bar.sync 0;)", for each group.
  std::string whereabouts() const;
  /// The warp, and the lane that accesses memory, for messages.
  std::string name() const;

  // ---- functions for instructions

  template <class T>
  T* values(RegOffset reg) {
    std::byte* const base = reg < kConstant ? registers_.data() : constants_;
    return reinterpret_cast<T*>(base + (reg & ~kConstant));
  }
  /// The bytes at a lane's address, after checks.
  std::byte* touch(Space space, Address address, const Instruction& i, int lane, bool write);
  void copy_params(const std::vector<Copy>& copies, Mask lanes);
  void count_sectors(const std::uint64_t* addresses, Mask lanes, bool write);

  /// Moves these executing lanes to an instruction.
  void jump(Mask lanes, std::uint32_t to);
  void leave(Mask lanes);
  /// Moves the lanes to the next instruction once all named lanes have arrived here. Returns true if they have. Then
  /// all of them are executing.
  bool gather(Mask lanes, Mask named);
  /// Lets the lanes wait for the whole block.
  void wait(Mask lanes);
  /// A barrier of this warp: earlier accesses of its lanes are complete.
  void synchronize() { since_ = met_ = ++block_.clock; }
  Mask live() const { return live_; }
  std::uint32_t pc() const { return pc_; }
  Block& block() { return block_; }

 private:
  void choose();
  void park(Mask lanes, std::uint32_t pc);
  std::byte* touch_own(std::vector<std::byte>& memory, std::size_t size, Address at,
                       std::size_t bytes, int lane);
  Here here(int lane) const;

  Block& block_;
  std::uint32_t number_;
  std::vector<std::byte> registers_;
  std::byte* constants_;
  std::vector<std::byte> call_params_, local_;  // one lane after the other
  std::array<std::uint32_t, kLanes> pcs_{};     // of lanes that are not executing
  Mask all_ = 0, live_ = 0, waiting_ = 0, executing_ = 0;
  std::uint32_t pc_ = 0;
  std::uint32_t limit_ = 0;  // lowest pc of the other lanes
  bool moved_ = false;       // choose() must run before the next instruction
  int lane_ = -1;            // the lane that accesses memory
  std::uint32_t since_ = 0;  // time of the warp's last barrier
  std::uint32_t met_ = 0;    // time of its last barrier or shuffle
};

}  // namespace jitstep::ptx
