#include "emulation/emulated_backend.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "jit/base/args.h"

namespace jitstep::emulation {
namespace {

class EmulatedLaunches : public jit::Launches {
 public:
  EmulatedLaunches(std::shared_ptr<const jit::Kernel> kernel,
                   const std::vector<std::string>& entries, SimtLaunch shape)
      : kernel_(std::move(kernel)), shape_(shape) {
    for (const auto& entry : entries) entries_.push_back(kernel_->emulated(entry));
  }

  void launch(int entry, const Args& args) override {
    if (args.item_count == 0) return;
    SimtLaunch shape = shape_;
    shape.grid = static_cast<unsigned>(std::min<std::int64_t>(shape.grid, args.item_count));
    simt_launch(entries_[entry], &args, shape);
  }

 private:
  std::shared_ptr<const jit::Kernel> kernel_;
  std::vector<jit::EmulatedEntry> entries_;
  SimtLaunch shape_;
};

}  // namespace

std::shared_ptr<const jit::Kernel> EmulatedBackend::load(const std::string& translation_unit,
                                                         const std::string& name) {
  auto kernel = engine_.kernel(translation_unit, name, target());
  *reinterpret_cast<const SimtBackend**>(
      reinterpret_cast<void*>(kernel->emulated("jitstep_simt_backend"))) = simt_backend();
  return kernel;
}

std::unique_ptr<jit::Launches> EmulatedBackend::launches(std::shared_ptr<const jit::Kernel> kernel,
                                                         const std::vector<std::string>& entries,
                                                         const jit::KernelConfig& config) {
  return std::make_unique<EmulatedLaunches>(
      std::move(kernel), entries,
      SimtLaunch{.grid = blocks_,
                 .block = static_cast<unsigned>(config.threads),
                 .order = order_,
                 .lanes = lanes_});
}

std::shared_ptr<void> EmulatedBackend::allocate(std::size_t bytes) {
  void* p = std::aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
  if (p == nullptr) throw std::bad_alloc();
  std::memset(p, 0xCD, bytes);  // a GPU's new memory is undefined, too
  return {p, &std::free};
}

void EmulatedBackend::upload(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace jitstep::emulation
