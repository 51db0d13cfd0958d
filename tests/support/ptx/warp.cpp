#include "support/ptx/warp.h"

#include <algorithm>
#include <bit>
#include <sstream>

namespace jitstep::ptx {
namespace {

constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
constexpr std::byte kGarbage{0xFF};  // NaN, as a float or double

std::string hex(Mask mask) {
  std::ostringstream text;
  text << "0x" << std::hex << mask;
  return text.str();
}

}  // namespace

// ---- a block ------------------------------------------------------------------------------------

std::size_t Block::shared_bytes(const Program& p) {
  return p.shared.empty() ? 0 : p.shared.back().end;
}

void Block::begin(std::uint32_t which) {
  number = which;
  if (!shared.empty()) shadow.forget();
  std::fill(shared.begin(), shared.end(), kGarbage);
}

// ---- a warp -------------------------------------------------------------------------------------

Warp::Warp(Block& block, std::uint32_t number)
    : block_(block),
      number_(number),
      registers_(block.program.register_bytes, kGarbage),
      constants_(const_cast<std::byte*>(block.program.constants.data())),
      call_params_(kLanes * std::size_t{block.program.call_bytes}, kGarbage),
      local_(kLanes * std::size_t{block.program.local_bytes}, kGarbage) {}

void Warp::begin(std::uint32_t pc) {
  // No block sees what an earlier one has left.
  for (std::vector<std::byte>* own : {&registers_, &call_params_, &local_})
    std::fill(own->begin(), own->end(), kGarbage);
  const std::uint32_t first = number_ * kLanes;
  const std::uint32_t values[] = {0, 0, block_.threads, block_.number, block_.grid, 0, 1};
  for (std::uint32_t special = 0; special < kSpecials; ++special)
    for (std::uint32_t lane = 0; lane < kLanes; ++lane)
      this->values<std::uint32_t>(special * kRegisterBytes)[lane] = special == kTid ? first + lane
                                                                    : special == kLane
                                                                        ? lane
                                                                        : values[special];
  const std::uint32_t lanes = std::min<std::uint32_t>(block_.threads - first, kLanes);
  all_ = live_ = lanes == kLanes ? kAllLanes : (Mask{1} << lanes) - 1;
  waiting_ = 0;
  since_ = met_ = 0;
  pcs_.fill(pc);
  executing_ = 0;
}

// Selects the lanes with the lowest pc, so that lanes that are behind catch up.
void Warp::choose() {
  moved_ = false;
  pc_ = limit_ = kNowhere;
  executing_ = 0;
  for (Mask m = live_ & ~waiting_; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const std::uint32_t pc = pcs_[static_cast<std::size_t>(lane)];
    if (pc < pc_) {
      limit_ = pc_;
      pc_ = pc;
      executing_ = 0;
    } else if (pc > pc_) {
      limit_ = std::min(limit_, pc);
    }
    if (pc == pc_) executing_ |= Mask{1} << lane;
  }
}

void Warp::run() {
  const std::vector<Instruction>& code = block_.program.code;
  Counts& counts = block_.counts;
  for (choose(); executing_ != 0; choose()) {
    while (!moved_) {
      const Instruction& i = code[pc_];
      Mask lanes = executing_;
      if (i.guard != kNoRegister) {
        const Mask guard = *values<Mask>(i.guard);
        lanes &= i.negated ? ~guard : guard;
      }
      counts.warp_instructions += 1;
      counts.instructions += static_cast<unsigned>(std::popcount(executing_));
      lane_ = -1;
      if (lanes != 0) i.run(*this, i, lanes);
      if (moved_) break;
      if (++pc_ >= limit_) park(executing_, pc_);
    }
  }
  if (live_ == 0) return;
  const std::uint32_t at = barrier();
  for (Mask m = live_; m != 0; m &= m - 1)
    if (pcs_[static_cast<std::size_t>(std::countr_zero(m))] != at || !code[at].block_barrier)
      throw Fault{kLaunchFailed, "lanes wait for others that do not come: " + whereabouts()};
}

// ---- control ------------------------------------------------------------------------------------

void Warp::park(Mask lanes, std::uint32_t pc) {
  for (; lanes != 0; lanes &= lanes - 1)
    pcs_[static_cast<std::size_t>(std::countr_zero(lanes))] = pc;
  moved_ = true;
}

// Executing lanes that do not jump continue after this instruction.
void Warp::jump(Mask lanes, std::uint32_t to) {
  if (!moved_ && lanes == executing_ && to < limit_) {
    pc_ = to - 1;  // the loop increments it
    return;
  }
  if (!moved_) park(executing_, pc_ + 1);
  park(lanes, to);
}

void Warp::leave(Mask lanes) {
  park(executing_, pc_ + 1);
  live_ &= ~lanes;
}

bool Warp::gather(Mask lanes, Mask named) {
  Mask here = lanes;
  for (Mask m = waiting_ & named; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    if (pcs_[static_cast<std::size_t>(lane)] == pc_) here |= Mask{1} << lane;
  }
  if ((lanes & ~named) != 0)
    throw Fault{kLaunchFailed,
                "is executed by lanes " + hex(lanes & ~named) + " that it does not name"};
  if ((named & ~live_) != 0)
    throw Fault{kLaunchFailed, "names lanes " + hex(named & ~live_) + " that have left"};
  if (here == named) {
    waiting_ &= ~here;
    executing_ |= here;
    if (named == live_) met_ = ++block_.clock;
    return true;
  }
  wait(lanes);
  return false;
}

void Warp::wait(Mask lanes) {
  park(executing_, pc_ + 1);
  park(lanes, pc_);
  waiting_ |= lanes;
}

void Warp::pass_barrier() {
  park(live_, barrier() + 1);
  waiting_ = 0;
}

std::string Warp::whereabouts() const {
  std::string text;
  std::map<std::uint32_t, Mask> groups;
  for (Mask m = live_; m != 0; m &= m - 1) {
    const int lane = std::countr_zero(m);
    groups[pcs_[static_cast<std::size_t>(lane)]] |= Mask{1} << lane;
  }
  for (const auto& [pc, lanes] : groups) {
    const auto line = static_cast<std::size_t>(block_.program.code[pc].line);
    text += (text.empty() ? "" : ", ") + ("lanes " + hex(lanes)) + " of warp " +
            std::to_string(number_) + " at line " + std::to_string(line) + " (" +
            block_.program.lines[line - 1] + ")";
  }
  return text;
}

int Warp::line() const { return block_.program.code[executing_ != 0 ? pc_ : barrier()].line; }

std::string Warp::name() const {
  return "warp " + std::to_string(number_) + (lane_ < 0 ? "" : ", lane " + std::to_string(lane_));
}

// ---- memory -------------------------------------------------------------------------------------

Here Warp::here(int lane) const {
  return {.launch = block_.launch,
          .thread = block_.number * Here::kThreads + number_ * kLanes + static_cast<unsigned>(lane),
          .time = block_.clock,
          .block_since = block_.barrier_time,
          .warp_since = since_,
          .warp_met = met_,
          .order = block_.order};
}

namespace {

void check_alignment(Address address, std::size_t bytes) {
  if (address % bytes != 0) throw Fault{kMisalignedAddress, "its address is not aligned"};
}

// The space of a generic or parameter address, and the address in that space.
Address in_space(Space& space, Address address) {
  const bool global = address >= window(Space::call) + kWindow;
  if (global && space == Space::param)
    throw Fault{kIllegalAddress,
                "reads a parameter at an address that is not in the parameter space"};
  space = global ? Space::global : static_cast<Space>(address / kWindow);
  return address - window(space);
}

std::byte* touch_params(const Block& block, Address address, std::size_t bytes, bool write) {
  if (address > block.param_bytes || bytes > block.param_bytes - address || write)
    throw Fault{kIllegalAddress, std::to_string(bytes) + " bytes at " + std::to_string(address) +
                                     " of the parameters: the kernel has " +
                                     std::to_string(block.param_bytes) +
                                     " bytes, which can only be read"};
  check_alignment(address, bytes);
  return const_cast<std::byte*>(block.params) + address;
}

std::byte* touch_shared(Block& block, Address address, std::size_t bytes, bool write,
                        const Here& here) {
  const auto& variables = block.program.shared;
  const bool there = std::any_of(variables.begin(), variables.end(), [&](const Range& r) {
    return address >= r.begin && address <= r.end && bytes <= r.end - address;
  });
  if (!there)
    throw Fault{kIllegalAddress, std::to_string(bytes) + " bytes at " + std::to_string(address) +
                                     " of shared memory belong to no variable"};
  check_alignment(address, bytes);
  if (write)
    block.shadow.write(address, bytes, here);
  else
    block.shadow.read(address, bytes, here);
  return block.shared.data() + address;
}

}  // namespace

std::byte* Warp::touch_own(std::vector<std::byte>& memory, std::size_t size, Address at,
                           std::size_t bytes, int lane) {
  if (at > size || bytes > size - at)
    throw Fault{kIllegalAddress, std::to_string(bytes) + " bytes at " + std::to_string(at) +
                                     " of a lane's own memory are not there"};
  check_alignment(at, bytes);
  return memory.data() + static_cast<std::size_t>(lane) * size + at;
}

std::byte* Warp::touch(Space space, Address address, const Instruction& i, int lane, bool write) {
  lane_ = lane;
  const std::size_t bytes = std::size_t{i.bytes} * i.parts;
  if (space == Space::generic || space == Space::param) address = in_space(space, address);
  switch (space) {
    case Space::call:
      return touch_own(call_params_, block_.program.call_bytes, address, bytes, lane);
    case Space::local:
      return touch_own(local_, block_.program.local_bytes, address, bytes, lane);
    case Space::param:
      return touch_params(block_, address, bytes, write);
    case Space::shared:
      return touch_shared(block_, address, bytes, write, here(lane));
    default:
      const auto use = write               ? Memory::Use::write
                       : i.constant_memory ? Memory::Use::constant
                                           : Memory::Use::read;
      return block_.memory.touch(address, bytes, use, block_.device, here(lane));
  }
}

void Warp::copy_params(const std::vector<Copy>& copies, Mask lanes) {
  const std::size_t size = block_.program.call_bytes;
  for (; lanes != 0; lanes &= lanes - 1) {
    std::byte* const own =
        call_params_.data() + static_cast<std::size_t>(std::countr_zero(lanes)) * size;
    for (const Copy& copy : copies) std::memcpy(own + copy.to, own + copy.from, copy.bytes);
  }
}

void Warp::count_sectors(const std::uint64_t* addresses, Mask lanes, bool write) {
  constexpr unsigned kSector = 32;
  std::array<std::uint64_t, kLanes> sectors;
  std::size_t n = 0;
  for (; lanes != 0; lanes &= lanes - 1) {
    const std::uint64_t sector = addresses[std::countr_zero(lanes)] / kSector;
    if (n == 0 || sectors[n - 1] != sector) sectors[n++] = sector;
  }
  std::sort(sectors.begin(), sectors.begin() + static_cast<std::ptrdiff_t>(n));
  const auto end = std::unique(sectors.begin(), sectors.begin() + static_cast<std::ptrdiff_t>(n));
  (write ? block_.counts.sectors_written : block_.counts.sectors_read) +=
      static_cast<std::uint64_t>(end - sectors.begin());
}

}  // namespace jitstep::ptx
