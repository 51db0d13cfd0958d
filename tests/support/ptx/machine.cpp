#include "support/ptx/machine.h"

#include <algorithm>

#include "support/ptx/forms.h"

namespace jitstep::ptx {
namespace {

class Execution {
 public:
  explicit Execution(const Launch& launch)
      : launch_(launch), block_(launch.program, launch.memory, launch.device) {
    block_.params = static_cast<const std::byte*>(launch.params);
    block_.param_bytes = launch.entry.param_bytes;
    block_.threads = launch.block;
    block_.grid = launch.grid;
    block_.launch = launch.number;
    block_.order = &launch.order;
    for (std::uint32_t k = 0; k < (launch.block + kLanes - 1) / kLanes; ++k)
      warps_.emplace_back(block_, k);
  }

  Counts run() {
    for (unsigned number = 0; number < launch_.grid; ++number) {
      block_.begin(number);
      for (Warp& warp : warps_) warp.begin(launch_.entry.begin);
      while (run_to_barrier()) pass_barrier();
    }
    return block_.counts;
  }

 private:
  // False if all lanes have exited.
  bool run_to_barrier() {
    bool waits = false;
    for (Warp& warp : warps_) {
      try {
        warp.run();
      } catch (const Fault& fault) {
        throw located(warp, fault);
      }
      waits |= !warp.has_left();
    }
    return waits;
  }

  void pass_barrier() {
    const std::uint32_t at = std::find_if(warps_.begin(), warps_.end(), [](const Warp& warp) {
                               return !warp.has_left();
                             })->barrier();
    for (const Warp& warp : warps_)
      if (!warp.is_whole() || warp.barrier() != at)
        throw Fault{kLaunchFailed, launch_.entry.name + ", block " + std::to_string(block_.number) +
                                       ": a barrier is not reached by all threads: " + everybody()};
    block_.barrier_time = ++block_.clock;
    for (Warp& warp : warps_) warp.pass_barrier();
  }

  std::string everybody() const {
    std::string text;
    for (const Warp& warp : warps_)
      text += (text.empty() ? "" : "; ") +
              (warp.is_whole() ? warp.whereabouts()
                               : "lanes have left" +
                                     (warp.has_left() ? std::string() : ", " + warp.whereabouts()));
    return text;
  }

  Fault located(const Warp& warp, const Fault& fault) const {
    const int line = warp.line();
    return {fault.code, launch_.entry.name + ", line " + std::to_string(line) + " (" +
                            launch_.program.lines[static_cast<std::size_t>(line - 1)] +
                            "), block " + std::to_string(block_.number) + ", " + warp.name() +
                            ": " + fault.what};
  }

  const Launch& launch_;
  Block block_;
  std::vector<Warp> warps_;
};

}  // namespace

std::string launch_problem(const Function& entry, unsigned grid, unsigned block) {
  const std::uint32_t limit = entry.threads == 0 ? Here::kThreads : entry.threads;
  constexpr std::uint32_t kMostBlocks = ~std::uint32_t{0} / Here::kThreads;  // a GPU allows more
  if (grid > 0 && grid <= kMostBlocks && block > 0 && block <= limit) return "";
  return entry.name + " cannot be launched with " + std::to_string(grid) + " blocks of " +
         std::to_string(block) + " threads: the limits are " + std::to_string(kMostBlocks) +
         " and " + std::to_string(limit);
}

Counts execute(const Launch& launch) { return Execution(launch).run(); }

}  // namespace jitstep::ptx
