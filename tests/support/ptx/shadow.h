// A shadow of memory with the last writer and the last reader of each cell. It detects reads of unwritten memory and
// unordered accesses when they happen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

namespace jitstep::ptx {

/// An invalid action of a kernel, as a CUDA error code and as text.
struct Fault {
  int code = 0;
  std::string what;
};
inline constexpr int kIllegalAddress = 700, kMisalignedAddress = 716, kLaunchFailed = 719;

/// Launches that have finished before the current one: those numbered below `below`, and those for which `before`
/// returns true. Copies count as launches.
struct Order {
  std::uint32_t below = 0;
  std::function<bool(std::uint32_t launch)> before = {};
};

/// The current access: the thread, and its last synchronizations. Times count a block's barriers.
struct Here {
  std::uint32_t launch = 0;
  std::uint32_t thread = 0;  // block * kThreads + index in the block
  std::uint32_t time = 0;
  std::uint32_t block_since = 0, warp_since = 0;  // last barrier of the block, and of the warp
  // The warp's last barrier or shuffle. A shuffle waits for earlier reads of its lanes, so it orders them before later
  // writes of other lanes. It does not order earlier writes.
  std::uint32_t warp_met = 0;
  const Order* order = nullptr;

  static constexpr std::uint32_t kThreads = 1024;  // maximum per block
  static constexpr std::uint32_t kWarp = 32;
};

/// The history of a range of memory. Cells have 4 bytes at first, and become smaller when an access needs it.
class Shadow {
 public:
  /// Whether unwritten memory may be read. Shared memory may: it contains NaNs, and the kernel need not use the result.
  enum class Unwritten { readable, refused };
  explicit Shadow(std::size_t bytes, Unwritten unwritten = Unwritten::refused);

  /// Throws a Fault if the bytes are unwritten, or if an unsynchronized thread wrote them.
  void read(std::size_t at, std::size_t bytes, const Here& here);
  /// Throws a Fault if an unsynchronized thread has written or read the bytes.
  void write(std::size_t at, std::size_t bytes, const Here& here);
  /// As read(), for bytes that this launch must not write. Throws a Fault if it has.
  void read_constant(std::size_t at, std::size_t bytes, const Here& here);
  /// Throws a Fault if work that is not ordered before this copy to the host wrote the bytes. They may be unwritten.
  void download(std::size_t at, std::size_t bytes, const Here& here) const;
  /// Forgets all writes and reads.
  void forget();

 private:
  enum class Scope : std::uint32_t { thread, warp, block, grid };
  struct Stamp {
    std::uint32_t launch = 0, time = 0, thread = 0;
    Scope scope = Scope::thread;
  };
  struct Cell {
    Stamp written, read;
    // Another launch that read the cell and is not ordered before `read`. Of more such launches, the last one.
    std::uint32_t other_reader = 0;
    std::uint32_t constant = 0;  // the last launch that read it as constant
  };
  struct Free {
    void operator()(Cell* cells) const;
  };
  using Cells = std::unique_ptr<Cell[], Free>;

  static Cells make(std::size_t count);
  static Scope scope_of(const Stamp& stamp, const Here& here);
  static bool is_over(std::uint32_t launch, const Here& here);
  static bool in_step(const Stamp& stamp, const Here& here, std::uint32_t warp_since);
  void suit(std::size_t at, std::size_t bytes);
  std::size_t count() const { return (bytes_ + (std::size_t{1} << shift_) - 1) >> shift_; }

  std::size_t bytes_;
  Unwritten unwritten_;
  int shift_ = 2;
  Cells cells_;
};

}  // namespace jitstep::ptx
