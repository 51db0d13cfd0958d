// Device back ends: memory, copies and launches of one device. The CPU's is here, CUDA's in cuda_backend.h, and that of
// the emulation in src/emulation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep {
struct Args;
}

namespace jitstep::jit {

/// The launches of one kernel, with its entries looked up once. Entries have the order of Unit::entries.
class JITSTEP_API Launches {
 public:
  virtual ~Launches() = default;
  /// Runs the entry of this index over args.item_count work items, after earlier launches.
  virtual void launch(int entry, const Args& args) = 0;
  /// The same, but each thread may begin with its last items, because its cache may still have their data from the
  /// launch before.
  virtual void launch_backwards(int entry, const Args& args) { launch(entry, args); }

  // ---- for devices with streams. Copies and launches use the program's current stream.

  /// Call it before the first copy or launch of a step. If the current stream has changed since the last step, the new
  /// stream waits for the recorded step, and this returns true. Otherwise a step could overwrite a table that an
  /// earlier step on another stream still reads.
  virtual bool wait_for_last_step() { return false; }
  /// Call it after the last launch of a step.
  virtual void record_step() {}
  /// Replaces both for a captured step. Its launches use the current stream, which waits for no earlier step.
  virtual void follow_capture() {}
};

/// One device, or its emulation. Optimizers of several threads share the back end of a device, so all of its functions
/// must be thread-safe. Only one thread at a time calls those for one Step.
class JITSTEP_API Backend {
 public:
  /// `configs` chooses the configurations of kernels for which the program sets none. Empty: the default ones.
  explicit Backend(ConfigProvider configs = {}) : configs_(std::move(configs)) {}
  virtual ~Backend() = default;
  /// The target that its kernels are compiled for.
  virtual Target target() const = 0;
  /// Compiles and loads the kernel of a translation unit. See Engine::kernel.
  virtual std::shared_ptr<const Kernel> load(const std::string& translation_unit,
                                             const std::string& name) = 0;
  /// Compiles kernels that will be loaded next, in parallel if possible.
  virtual void build_all(const std::vector<struct NamedText>&) {}
  /// Chooses the configuration of a kernel if the program sets none. Slow for a new kernel, so a step calls it only
  /// once.
  ConfigChoice choose_config(const Plan& plan, const WorkSize& size) const;
  /// The launches of a kernel that was compiled for this configuration.
  virtual std::unique_ptr<Launches> launches(std::shared_ptr<const Kernel> kernel,
                                             const std::vector<std::string>& entries,
                                             const KernelConfig& config) = 0;
  /// Allocates device memory, aligned to 256 bytes. The pointer's deleter frees it.
  virtual std::shared_ptr<void> allocate(std::size_t bytes) = 0;
  /// The elements whose parameters, gradients and state fit into the caches of all processors. A step runs several
  /// passes for so many elements before it visits the next ones. 0: each pass visits all tensors.
  virtual std::int64_t cached_elements() const { return 0; }
  /// Copies to the device in the order of launches. The caller may reuse `from` when it returns.
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  /// The engine that checks each rule's contract before the rule's first step. Null unless Settings::check is set.
  virtual class Engine* contract_checker() const { return nullptr; }
  /// True if copies and launches are currently captured for later replay, as in a CUDA graph capture. Each replay of a
  /// copy reads its source again.
  virtual bool is_capturing() { return false; }
  /// Throws an Error with advice if is_capturing(). For work that a graph cannot repeat.
  void check_not_capturing();
  /// Marks memory from `allocate` as used on the current stream, so that it is not reused before the work there is
  /// done.
  virtual void record_stream(const std::shared_ptr<void>&) {}

 private:
  ConfigProvider configs_;
};

/// Runs body(begin, end) over ranges that cover [0, count), possibly in several threads at once. Every range but the
/// last has at least `grain` elements. `grain` is at least 1.
using ParallelFor =
    std::function<void(std::int64_t count, std::int64_t grain,
                       const std::function<void(std::int64_t, std::int64_t)>& body)>;

/// The CPU back end. The engine must outlive it. Without a ParallelFor everything runs in the calling thread.
class JITSTEP_API CpuBackend : public Backend {
 public:
  /// `parallel_for` may run the ranges of a launch concurrently. A forked child does not call it if its parent had
  /// several threads, because the threads of a pool do not exist there. `configs` is that of Backend, but if it is
  /// empty, the configurations come from tuning records of similar hardware, such as those in the engine's
  /// Settings::cache_dir.
  explicit CpuBackend(class Engine& engine, ParallelFor parallel_for = {},
                      ConfigProvider configs = {});
  Target target() const override { return Target::cpu(); }
  std::shared_ptr<const Kernel> load(const std::string& translation_unit,
                                     const std::string& name) override;
  void build_all(const std::vector<NamedText>& units) override;
  std::unique_ptr<Launches> launches(std::shared_ptr<const Kernel> kernel,
                                     const std::vector<std::string>& entries,
                                     const KernelConfig& config) override;
  std::shared_ptr<void> allocate(std::size_t bytes) override;
  std::int64_t cached_elements() const override;
  void upload(void* to, const void* from, std::size_t bytes) override;
  Engine* contract_checker() const override;

 private:
  Engine& engine_;
  ParallelFor parallel_for_;
};

}  // namespace jitstep::jit
