#include "tuning/scratch_device.h"

#include <algorithm>
#include <vector>

#include "jit/base/text.h"
#include "jit/search/candidate_check.h"
#include "jit/tuning/config_chooser.h"
#include "jitstep/jit/error.h"

namespace jitstep::tuning {
namespace {

using jit::str_cat;

constexpr double kSlow = 20;  // a candidate that takes 20 times the default's time is rejected

}  // namespace

ScratchDevice::ScratchDevice(jit::Engine& engine, jit::Hardware hardware,
                             std::unique_ptr<jit::Backend> backend, const ScratchLimits& limits,
                             Clock clock)
    : engine_(engine),
      hardware_(std::move(hardware)),
      backend_(std::move(backend)),
      limits_(limits),
      clock_(std::move(clock)) {}

jit::RecordVersions ScratchDevice::versions(const jit::Plan& plan) {
  return jit::versions_of(engine_, plan, hardware_.target);
}

jit::KernelConfig ScratchDevice::default_config() const {
  return jit::default_kernel_config(workload_->plan, hardware_.target);
}

void ScratchDevice::begin(const Workload& workload) {
  // The bandwidth baseline moves as many bytes, in memory of its own.
  const std::int64_t bytes = 2 * jit::ScratchTensors::bytes(workload.plan, workload.shapes);
  if (bytes > limits_.scratch_bytes)
    throw jit::Error(str_cat(
        workload.name(), " needs ", bytes >> 20, " MiB of scratch memory, more than the limit of ",
        limits_.scratch_bytes >> 20, " MiB. Choose a smaller size or raise --scratch."));
  steps_.clear();
  scratch_.reset();
  baseline_ = {};
  workload_ = workload;
  scratch_ = std::make_unique<jit::ScratchTensors>(*backend_, workload.plan, workload.numbers,
                                                   workload.shapes);
  timed_step(default_config(), 1);  // warm-up: touches all memory
  const double once = std::max(timed_step(default_config(), 1), 1e-9);
  repeats_ = static_cast<int>(std::clamp(limits_.least_seconds / once, 1.0, 10000.0));
  baseline_ = make_baseline(workload);
  hardware_.bandwidth = baseline_bandwidth();
}

jit::Step& ScratchDevice::step_of(const jit::KernelConfig& config) {
  const auto known = steps_.find(config);
  if (known != steps_.end()) return known->second;
  return steps_.emplace(config, scratch_->step_by(config)).first->second;
}

std::optional<jit::Trial> ScratchDevice::check(const jit::KernelConfig& candidate) {
  const jit::Candidate kernel{workload_->plan, workload_->numbers, workload_->shapes.front()};
  const auto to_host = [this](void* to, const void* from, std::size_t n) { download(to, from, n); };
  if (auto problem = jit::check_candidate(*backend_, kernel, default_config(), candidate, to_host))
    return problem;
  timed_step(candidate, 1);  // compiles and loads the kernel
  const double before = timed_step(default_config(), 1), once = timed_step(candidate, 1);
  if (once < kSlow * std::max(before, 1e-4)) return {};
  return jit::Trial{
      .config = candidate,
      .status = jit::TrialStatus::timed_out,
      .detail = str_cat("a step takes more than ", kSlow, " times the default's time")};
}

double ScratchDevice::timed(const std::function<void()>& work, int repeats) {
  finish();
  const double start = clock_();
  for (int i = 0; i < repeats; ++i) work();
  finish();
  return (clock_() - start) / repeats;
}

double ScratchDevice::timed_step(const jit::KernelConfig& config, int repeats) {
  jit::Step& step = step_of(config);
  return timed([&] { scratch_->run(step); }, repeats);
}

double ScratchDevice::seconds(const jit::KernelConfig& config) {
  return timed_step(config, repeats_);
}

// ---- the bandwidth baseline ------------------------------------------------------------------------

double ScratchDevice::baseline_seconds() { return timed(baseline_, repeats_); }

double ScratchDevice::baseline_bandwidth() {
  constexpr int kRounds = 7;
  baseline_seconds();  // warm-up: touches all memory
  std::vector<double> seconds;
  for (int i = 0; i < kRounds; ++i) seconds.push_back(baseline_seconds());
  std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
  return moved_bytes(*workload_) / std::max(seconds[kRounds / 2], 1e-9);
}

std::shared_ptr<void> ScratchDevice::filled(std::int64_t bytes) {
  constexpr std::int64_t kChunk = 1 << 20;
  const std::vector<std::byte> ones(static_cast<std::size_t>(std::min(bytes, kChunk)),
                                    std::byte{1});
  auto memory = backend_->allocate(static_cast<std::size_t>(bytes));
  auto* const first = static_cast<std::byte*>(memory.get());
  for (std::int64_t at = 0; at < bytes; at += kChunk)
    backend_->upload(first + at, ones.data(),
                     static_cast<std::size_t>(std::min(kChunk, bytes - at)));
  return memory;
}

}  // namespace jitstep::tuning
