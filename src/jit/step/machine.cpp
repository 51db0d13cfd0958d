#include "jitstep/jit/machine.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "jit/step/variant_chooser.h"
#include "jitstep/jit/engine.h"

namespace jitstep::jit {

void Machine::refuse_capture() {
  if (!is_capturing()) return;
  throw Error(
      "jitstep: step() inside a CUDA graph capture, which is not ready for it: a graph cannot "
      "repeat the making of kernels, tables and state, nor what the host counts; call capturable() "
      "of the optimizer, and take a step of the same parameters before the capture");
}
namespace {

// Items of 32768 elements, which is what torch gives a thread at least.
std::int64_t usual_grain(const Variant& variant) {
  return std::max<std::int64_t>(1, 32768 / kLeaf / variant.chunk);
}

class CpuLaunches : public Launches {
 public:
  CpuLaunches(std::shared_ptr<const Kernel> kernel, const std::vector<std::string>& entries,
              const Variant& variant, const ParallelFor& parallel_for)
      : kernel_(std::move(kernel)),
        parallel_for_(parallel_for),
        grain_(variant.grain > 0 ? variant.grain : usual_grain(variant)),
        workers_(variant.workers) {
    for (const auto& entry : entries) entries_.push_back(kernel_->cpu(entry));
  }

  void launch(int entry, const Args& args) override {
    const CpuEntry run = entries_[entry];
    if (args.item_count == 1 || workers_ == 1 || !parallel_for_)
      return run(&args, 0, args.item_count);
    const std::int64_t share = workers_ > 0 ? (args.item_count + workers_ - 1) / workers_ : 1;
    parallel_for_(args.item_count, std::max(grain_, share),
                  [&](std::int64_t begin, std::int64_t end) { run(&args, begin, end); });
  }

 private:
  std::shared_ptr<const Kernel> kernel_;
  const ParallelFor& parallel_for_;
  std::int64_t grain_, workers_;  // 0 workers: all there are
  std::vector<CpuEntry> entries_;
};

}  // namespace

VariantChoice Machine::choose_variant(const Plan& plan, const WorkSize&) {
  return {.variant = default_variant(plan, target())};
}

CpuMachine::CpuMachine(Engine& engine, ParallelFor parallel_for)
    : engine_(engine),
      parallel_for_(std::move(parallel_for)),
      chooser_(std::make_shared<VariantChooser>(engine, host_hardware())) {}

VariantChoice CpuMachine::choose_variant(const Plan& plan, const WorkSize& size) {
  return chooser_->choose(plan, size);
}

std::shared_ptr<const Kernel> CpuMachine::load(const std::string& unit_text,
                                               const std::string& name) {
  return engine_.kernel(unit_text, name, target());
}

void CpuMachine::build_all(const std::vector<NamedText>& units) {
  engine_.build_all(units, target());
}

std::unique_ptr<Launches> CpuMachine::launches(std::shared_ptr<const Kernel> kernel,
                                               const std::vector<std::string>& entries,
                                               const Variant& variant) {
  return std::make_unique<CpuLaunches>(std::move(kernel), entries, variant, parallel_for_);
}

std::shared_ptr<void> CpuMachine::allocate(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  const std::size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* p = std::aligned_alloc(kAlignment, std::max(size, kAlignment));
  if (p == nullptr) throw std::bad_alloc();
  return {p, &std::free};
}

Engine* CpuMachine::contract_checker() const {
  return engine_.settings().check ? &engine_ : nullptr;
}

void CpuMachine::upload(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

}  // namespace jitstep::jit
