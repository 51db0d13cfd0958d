#include "jitstep/machines.h"

#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#include "jitstep/jit/engine.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/text.h"

namespace jitstep {
namespace {

// A chunk is 4096 elements; torch gives a thread 32768 and more.
constexpr std::int64_t kGrain = 8;

void torch_parallel_for(std::int64_t count,
                        const std::function<void(std::int64_t, std::int64_t)>& body) {
  at::parallel_for(0, count, kGrain, body);
}

// NVRTC from PyPI lies in site-packages/nvidia, beside site-packages/torch/lib/libc10.so.
void add_nvrtc_beside_torch(jit::Engine& engine) {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&c10::GetAllocator), &info) == 0) return;
  const auto torch_lib = std::filesystem::path(info.dli_fname).parent_path();
  engine.add_nvrtc_folder((torch_lib / "../..").lexically_normal().string());
}

c10::Stream current_stream(const torch::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

class CudaLaunches : public jit::Launches {
 public:
  CudaLaunches(std::shared_ptr<const jit::Kernel> kernel, const std::vector<std::string>& entries,
               int threads, torch::Device device, std::int64_t blocks)
      : kernel_(std::move(kernel)), threads_(threads), device_(device), blocks_(blocks) {
    for (const auto& entry : entries) entries_.push_back(kernel_->cuda(entry));
  }

  void launch(int entry, const Args& args) override {
    const auto grid = static_cast<unsigned>(std::min<std::int64_t>(args.item_count, blocks_));
    entries_[entry].launch(current_stream(device_).native_handle(), grid,
                           static_cast<unsigned>(threads_), &args);
  }

 private:
  std::shared_ptr<const jit::Kernel> kernel_;
  std::vector<jit::CudaEntry> entries_;
  int threads_;
  torch::Device device_;
  std::int64_t blocks_;
};

class CudaMachine : public jit::Machine {
 public:
  CudaMachine(jit::Engine& engine, torch::Device device)
      : engine_(engine), device_(device), target_(engine.cuda_target(device.index())) {
    // Enough blocks to fill the GPU several times over; each takes its share of the items.
    constexpr int kBlocksPerMultiprocessor = 32;
    blocks_ = engine.driver().device(device.index()).multiprocessors * kBlocksPerMultiprocessor;
  }

  jit::Target target() const override { return target_; }

  std::shared_ptr<const jit::Kernel> load(const std::string& unit_text,
                                          const std::string& name) override {
    refuse_capture();
    return engine_.kernel(unit_text, name, target_, device_.index());
  }

  std::unique_ptr<jit::Launches> launches(std::shared_ptr<const jit::Kernel> kernel,
                                          const std::vector<std::string>& entries,
                                          int threads) override {
    return std::make_unique<CudaLaunches>(std::move(kernel), entries, threads, device_, blocks_);
  }

  std::shared_ptr<void> allocate(std::size_t bytes) override {
    auto tensor = std::make_shared<torch::Tensor>(torch::empty(
        {static_cast<std::int64_t>(bytes)}, torch::dtype(torch::kUInt8).device(device_)));
    return {tensor, tensor->data_ptr()};
  }

  void upload(void* to, const void* from, std::size_t bytes) override {
    refuse_capture();
    const auto size = static_cast<std::int64_t>(bytes);
    auto target = torch::from_blob(to, {size}, torch::dtype(torch::kUInt8).device(device_));
    // From pageable memory: the driver has taken its copy when the call returns.
    target.copy_(torch::from_blob(const_cast<void*>(from), {size}, torch::kUInt8), true);
  }

 private:
  void refuse_capture() const {
    // The driver tells; c10::Stream learned it only after LibTorch 2.11.
    if (engine_.driver().is_capturing(current_stream(device_).native_handle()))
      throw jit::Error(
          "jitstep: step() inside a CUDA graph capture: the step number, hyperparameters and "
          "kernels "
          "are sent from the host; call step() outside the capture");
  }

  jit::Engine& engine_;
  torch::Device device_;
  jit::Target target_;
  std::int64_t blocks_ = 0;
};

std::unique_ptr<jit::Machine> make_machine(const torch::Device& device) {
  jit::Engine& engine = jit::default_engine();
  if (device.is_cpu()) return std::make_unique<jit::CpuMachine>(engine, torch_parallel_for);
  if (!device.is_cuda())
    throw jit::Error(jit::text("jitstep: a parameter on ", device.str(),
                               ": only CPU and CUDA devices have kernels; move it to one of them"));
  add_nvrtc_beside_torch(engine);
  return std::make_unique<CudaMachine>(engine, device);
}

}  // namespace

jit::Machine& machine_of(const torch::Device& device) {
  static std::mutex mutex;
  static auto& machines = *new std::map<std::string, std::unique_ptr<jit::Machine>>;
  const std::lock_guard lock(mutex);
  auto& machine = machines[device.str()];
  if (!machine) machine = make_machine(device);
  return *machine;
}

}  // namespace jitstep
