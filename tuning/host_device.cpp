#include "tuning/host_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "jit/base/text.h"
#include "jit/step/candidate_check.h"
#include "jit/step/variant_chooser.h"
#include "jitstep/jit/error.h"

namespace jitstep::tuning {
namespace {

using jit::text;

constexpr std::int64_t kElementsOfAnItem = 4096;
constexpr double kSlow = 20;  // times the default's: what takes longer is stopped after one step

// Bytes that are read and written, and bytes that are read, in equal parts for each item.
constexpr const char* kWalk = R"(
  struct Args { unsigned char* both; const unsigned char* read; long long both_bytes, read_bytes, items; };
  extern "C" [[gnu::visibility("default")]]
  void walk(const void* args, long long begin, long long end) {
    const auto [both, read, both_bytes, read_bytes, items] = *static_cast<const Args*>(args);
    for (long long item = begin; item < end; ++item) {
      const long long first = both_bytes * item / items, last = both_bytes * (item + 1) / items;
      for (long long i = first; i < last; ++i) both[i] ^= 1;
      unsigned char any = 0;
      for (long long i = read_bytes * item / items; i < read_bytes * (item + 1) / items; ++i) any |= read[i];
      if (last > first) both[first] ^= any & 2;
    }
  })";

// Read and written, and only read.
struct Moved {
  std::int64_t both = 0, read = 0;
};

Moved moved_by(const Workload& workload) {
  const std::int64_t elements = workload.size().elements;
  Moved moved;
  moved.read = elements * jit::bytes_of(workload.plan.spec.gradient);
  moved.both = jit::ScratchTensors::bytes(workload.plan, workload.shapes) - moved.read;
  return moved;
}

}  // namespace

double steady_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

HostDevice::HostDevice(jit::Engine& engine, const HostLimits& limits, Clock clock)
    : engine_(engine),
      limits_(limits),
      clock_(std::move(clock)),
      hardware_(jit::host_hardware()),
      parallel_for_(thread_pool(limits.threads)),
      machine_(std::make_unique<jit::CpuMachine>(engine, parallel_for_)) {
  hardware_.units = limits.threads;
}

jit::RecordVersions HostDevice::versions(const jit::Plan& plan) {
  return jit::versions_of(engine_, plan, jit::Target::cpu());
}

Model HostDevice::model(const Workload& workload) { return cpu_model(hardware_, workload.size()); }

void HostDevice::begin(const Workload& workload) {
  const std::int64_t bytes = jit::ScratchTensors::bytes(workload.plan, workload.shapes);
  if (bytes > limits_.scratch_bytes)
    throw jit::Error(text(workload.name(), " takes ", bytes >> 20, " MiB of scratch, more than ",
                          limits_.scratch_bytes >> 20,
                          " MiB; choose a smaller size or raise --scratch"));
  steps_.clear();
  scratch_.reset();
  workload_ = workload;
  scratch_ = std::make_unique<jit::ScratchTensors>(*machine_, workload.plan, workload.numbers,
                                                   workload.shapes);
  const jit::Variant usual = jit::default_variant(workload.plan, jit::Target::cpu());
  jit::Step& step = step_of(usual);
  scratch_->run(step);  // touches all memory
  const double once = std::max(timed([&] { scratch_->run(step); }, 1), 1e-9);
  repeats_ = static_cast<int>(std::clamp(limits_.least_seconds / once, 1.0, 10000.0));
  walk_ = make_walk();
  hardware_.bandwidth = walk_bandwidth();
}

jit::Step& HostDevice::step_of(const jit::Variant& variant) {
  const auto known = steps_.find(variant);
  if (known != steps_.end()) return known->second;
  return steps_.emplace(variant, scratch_->step_by(variant)).first->second;
}

std::optional<jit::Trial> HostDevice::check(const jit::Variant& candidate) {
  const auto download = [](void* to, const void* from, std::size_t n) { std::memcpy(to, from, n); };
  const jit::Variant usual = jit::default_variant(workload_->plan, jit::Target::cpu());
  const jit::TriedKernel kernel{workload_->plan, workload_->numbers, workload_->shapes.front()};
  if (auto problem = jit::check_candidate(*machine_, kernel, usual, candidate, download))
    return problem;
  jit::Step &by_default = step_of(usual), &by_candidate = step_of(candidate);
  scratch_->run(by_candidate);
  const double before = timed([&] { scratch_->run(by_default); }, 1);
  const double once = timed([&] { scratch_->run(by_candidate); }, 1);
  if (once < kSlow * std::max(before, 1e-4)) return {};
  return jit::Trial{.variant = candidate,
                    .status = jit::TrialStatus::timed_out,
                    .detail = text("a step takes more than ", kSlow, " times the default's time")};
}

double HostDevice::timed(const std::function<void()>& work, int repeats) const {
  const double start = clock_();
  for (int i = 0; i < repeats; ++i) work();
  return (clock_() - start) / repeats;
}

double HostDevice::seconds(const jit::Variant& variant) {
  jit::Step& step = step_of(variant);
  return timed([&] { scratch_->run(step); }, repeats_);
}

double HostDevice::moved_bytes(const Workload& workload) {
  const Moved moved = moved_by(workload);
  return 2.0 * static_cast<double>(moved.both) + static_cast<double>(moved.read);
}

// The arguments of the walk, with what they point to.
struct HostDevice::Walk {
  struct Args {
    void* both;
    const void* read;
    std::int64_t both_bytes, read_bytes, items;
  };
  std::shared_ptr<const jit::Kernel> kernel;
  std::shared_ptr<void> both, read;
  Args args;
};

HostDevice::~HostDevice() = default;

std::unique_ptr<HostDevice::Walk> HostDevice::make_walk() {
  const Moved moved = moved_by(*workload_);
  const auto filled = [&](std::int64_t bytes) {
    auto memory = machine_->allocate(static_cast<std::size_t>(bytes));
    std::memset(memory.get(), 1, static_cast<std::size_t>(bytes));
    return memory;
  };
  auto walk = std::make_unique<Walk>();
  walk->kernel = engine_.kernel(kWalk, "walk", jit::Target::cpu());
  walk->both = filled(moved.both);
  walk->read = filled(moved.read);
  walk->args = {walk->both.get(), walk->read.get(), moved.both, moved.read,
                std::max<std::int64_t>(1, workload_->size().elements / kElementsOfAnItem)};
  return walk;
}

double HostDevice::walk_seconds() {
  const jit::CpuEntry entry = walk_->kernel->cpu("walk");
  const Walk::Args& args = walk_->args;
  const auto part = [&](std::int64_t begin, std::int64_t end) { entry(&args, begin, end); };
  constexpr std::int64_t kGrain = 32768 / kElementsOfAnItem;  // as that of a step by default
  return timed(
      [&] {
        if (parallel_for_)
          parallel_for_(args.items, kGrain, part);
        else
          part(0, args.items);
      },
      repeats_);
}

double HostDevice::walk_bandwidth() {
  constexpr int kRounds = 7;
  walk_seconds();  // touches all memory
  std::vector<double> seconds;
  for (int i = 0; i < kRounds; ++i) seconds.push_back(walk_seconds());
  std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
  return moved_bytes(*workload_) / std::max(seconds[kRounds / 2], 1e-9);
}

}  // namespace jitstep::tuning
