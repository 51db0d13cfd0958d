// What is known of each place in memory: who wrote it and who read it last, so that what was never written,
// and what is not ordered, is noticed when it happens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

namespace jitstep::ptx {

/// What a kernel must not do, as a CUDA error and in words.
struct Fault {
  int code = 0;
  std::string what;
};
inline constexpr int kIllegalAddress = 700, kMisalignedAddress = 716, kLaunchFailed = 719;

/// Which launches are over for the one that runs now: those numbered below `below`, and what the function
/// says of the others. Copies are launches, too.
struct Order {
  std::uint32_t below = 0;
  std::function<bool(std::uint32_t launch)> before = {};
};

/// Who touches memory, and since when he is in step with others. Times count a block's barriers.
struct Here {
  std::uint32_t launch = 0;
  std::uint32_t thread = 0;  // block * kThreads + the thread's index in it
  std::uint32_t time = 0;
  std::uint32_t block_since = 0, warp_since = 0;  // the last barrier of the block, and of the warp
  // The warp's last barrier or shuffle. A shuffle waits for what lanes have read before, and so orders it with what
  // others write afterwards; what lanes have written it does not order.
  std::uint32_t warp_met = 0;
  const Order* order = nullptr;

  static constexpr std::uint32_t kThreads = 1024;  // that a block may have
  static constexpr std::uint32_t kWarp = 32;
};

/// The history of a piece of memory. It begins with places of 4 bytes, and goes over to smaller ones when such
/// are used.
class Shadow {
 public:
  /// Whether what was never written may be read. Shared memory may: it is garbage that is no number, and what is
  /// made of it need not be used.
  enum class Unwritten { readable, refused };
  explicit Shadow(std::size_t bytes, Unwritten unwritten = Unwritten::refused);

  /// A Fault if it was never written, or by somebody who is not in step with this one.
  void read(std::size_t at, std::size_t bytes, const Here& here);
  /// A Fault if somebody not in step has written or read it.
  void write(std::size_t at, std::size_t bytes, const Here& here);
  /// A Fault if this launch has written it.
  void constant(std::size_t at, std::size_t bytes, const Here& here) const;
  /// Nothing was written or read.
  void forget();

 private:
  enum Scope : std::uint32_t { kThread, kWarp, kBlock, kGrid };
  struct Stamp {
    std::uint32_t launch = 0, time = 0, thread = 0, scope = kThread;
  };
  struct Cell {
    Stamp written, read;
  };
  struct Free {
    void operator()(Cell* cells) const;
  };
  using Cells = std::unique_ptr<Cell[], Free>;

  static Cells make(std::size_t count);
  static Scope scope_of(const Stamp& stamp, const Here& here);
  static bool in_step(const Stamp& stamp, const Here& here, std::uint32_t warp_since);
  void suit(std::size_t at, std::size_t bytes);
  std::size_t count() const { return (bytes_ + (std::size_t{1} << shift_) - 1) >> shift_; }

  std::size_t bytes_;
  Unwritten unwritten_;
  int shift_ = 2;
  Cells cells_;
};

}  // namespace jitstep::ptx
