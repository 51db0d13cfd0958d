#include "jitstep/jit/kernel.h"

#include "jit/engine/cuda_driver.h"

#include "jit/base/text.h"
#include "jit/engine/module.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

void require(const Kernel& kernel, Target::Kind kind, const char* word) {
  if (kernel.target().kind == kind) return;
  throw Error(str_cat("the kernel ", kernel.name(), " is for ", to_string(kernel.target()),
                      ", not for ", word));
}

}  // namespace

Kernel::Kernel(std::shared_ptr<const Built> built, std::unique_ptr<Module> module)
    : built_(std::move(built)), module_(std::move(module)) {}

Kernel::~Kernel() = default;

CpuEntry Kernel::cpu(const std::string& entry) const {
  require(*this, Target::Kind::cpu, "cpu");
  return reinterpret_cast<CpuEntry>(module_->symbol(entry));
}

EmulatedEntry Kernel::emulated(const std::string& entry) const {
  require(*this, Target::Kind::emulated, "emulated");
  return reinterpret_cast<EmulatedEntry>(module_->symbol(entry));
}

CudaEntry Kernel::cuda(const std::string& entry) const {
  require(*this, Target::Kind::cuda, "a GPU");
  return module_->cuda_entry(entry);
}

}  // namespace jitstep::jit
