// Where a step runs: memory, copies and launches of one device. The CPU's is here, a GPU's in
// cuda_backend.h, the emulation's in src/emulation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "jitstep/args.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep::jit {

/// The launches of one kernel, looked up once. Entries are in the order of Unit::entries.
class JITSTEP_API Launches {
 public:
  virtual ~Launches() = default;
  /// Runs entry number `entry` over args.item_count work items, in the order of earlier launches.
  virtual void launch(int entry, const Args& args) = 0;

  // ---- for devices with streams. Copies and launches go on the stream that is the program's current
  // one; a table that one step reads must not be overwritten by the next on another stream.

  /// To be called before anything is sent or launched for a step. If the program has another current
  /// stream than before, makes it wait for the step that was recorded last and returns true.
  virtual bool wait_for_last_step() { return false; }
  /// To be called after the last launch of a step.
  virtual void record_step() {}
  /// In place of both for a step that is captured: its launches go on the current stream, which waits for nothing.
  virtual void follow_capture() {}
};

/// One device, or what stands for one. Used by one thread at a time.
class JITSTEP_API Backend {
 public:
  virtual ~Backend() = default;
  /// What kernels for it are compiled for.
  virtual Target target() const = 0;
  /// The loaded kernel of a translation unit; see Engine::kernel.
  virtual std::shared_ptr<const Kernel> load(const std::string& translation_unit,
                                             const std::string& name) = 0;
  /// Has kernels compiled that are about to be loaded, at the same time where it can.
  virtual void build_all(const std::vector<struct NamedText>&) {}
  /// How a kernel that nobody has given a configuration is run: by what was measured on machines like this one, where
  /// that is known. Slow when the kernel is new to it; a step asks once.
  virtual ConfigChoice choose_config(const Plan& plan, const WorkSize& size);
  /// Of a kernel that was compiled for this configuration.
  virtual std::unique_ptr<Launches> launches(std::shared_ptr<const Kernel> kernel,
                                             const std::vector<std::string>& entries,
                                             const KernelConfig& config) = 0;
  /// Memory of the device, aligned to 256 bytes, freed with the pointer.
  virtual std::shared_ptr<void> allocate(std::size_t bytes) = 0;
  /// Copies to the device in the order of launches; `from` may be reused at once.
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  /// The engine that holds rules to their contract before their first step; null: nobody asks for it
  /// (Settings::check).
  virtual class Engine* contract_checker() const { return nullptr; }
  /// Whether copies and launches now are recorded instead of done, to be repeated later, as in a CUDA graph capture.
  /// A copy then reads its source whenever it is repeated.
  virtual bool is_capturing() { return false; }
  /// An Error, in words for users of steps, if it is.
  void refuse_capture();
  /// Says that memory from `allocate` is used on the current stream too, and must not be given to
  /// others before the work there is done.
  virtual void record_stream(const std::shared_ptr<void>&) {}
};

/// Runs body(begin, end) over parts of [0, count), possibly from several threads at once; a part that
/// leaves others something has at least `grain`, which is 1 or more.
using ParallelFor =
    std::function<void(std::int64_t count, std::int64_t grain,
                       const std::function<void(std::int64_t, std::int64_t)>& body)>;

/// The host's processors; the engine must outlive it. Without a ParallelFor everything runs in the
/// calling thread. Kernels run as the engine's records say (Settings::cache_dir).
class JITSTEP_API CpuBackend : public Backend {
 public:
  /// `parallel_for` may run the parts of a launch at the same time.
  explicit CpuBackend(class Engine& engine, ParallelFor parallel_for = {});
  Target target() const override { return Target::cpu(); }
  std::shared_ptr<const Kernel> load(const std::string& translation_unit,
                                     const std::string& name) override;
  void build_all(const std::vector<NamedText>& units) override;
  ConfigChoice choose_config(const Plan& plan, const WorkSize& size) override;
  std::unique_ptr<Launches> launches(std::shared_ptr<const Kernel> kernel,
                                     const std::vector<std::string>& entries,
                                     const KernelConfig& config) override;
  std::shared_ptr<void> allocate(std::size_t bytes) override;
  void upload(void* to, const void* from, std::size_t bytes) override;
  Engine* contract_checker() const override;

 private:
  Engine& engine_;
  ParallelFor parallel_for_;
  std::shared_ptr<class ConfigChooser> chooser_;
};

}  // namespace jitstep::jit
