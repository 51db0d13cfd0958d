#include "jit/step/candidate_check.h"

#include <algorithm>

#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

constexpr int kSteps = 2;  // the second one reads what the first has written
constexpr int kRegisters = 65536, kSharedBytes = 48 << 10;
constexpr int kLaunchOutOfResources = 701;  // of CUresult

std::string first_line(const std::string& message) { return message.substr(0, message.find('\n')); }

// A driver that cannot give a block its registers says so at the launch.
TrialStatus status_of(const Error& error) {
  const auto* const of_driver = dynamic_cast<const CudaError*>(&error);
  return of_driver != nullptr && of_driver->code() == kLaunchOutOfResources
             ? TrialStatus::exceeds_resources
             : TrialStatus::does_not_compile;
}

// A tensor of as many dimensions with two chunks and a ragged end, or the tensor itself if it is smaller.
std::vector<std::int64_t> scratch_sizes(const std::vector<std::int64_t>& sizes, int chunk) {
  const std::int64_t wanted = std::int64_t{2} * chunk * kLeaf + 77;
  if (Shape{sizes, {}}.elements() <= wanted) return sizes;
  std::vector<std::int64_t> made(sizes.size(), 1);
  constexpr std::int64_t kColumns = 96;
  made.back() = sizes.size() == 1 ? wanted : kColumns;
  if (sizes.size() > 1) made[made.size() - 2] = wanted / kColumns;
  return made;
}

std::vector<std::byte> left_by(Machine& machine, const TriedKernel& kernel,
                               const std::vector<std::int64_t>& sizes, const Variant& variant,
                               const DownloadFrom& download) {
  ScratchTensors tensors(machine, kernel.plan, kernel.numbers, {sizes});
  Step step = tensors.step_by(variant);
  for (int i = 0; i < kSteps; ++i) tensors.run(step);
  return tensors.content(download);
}

std::optional<Trial> compared(Machine& machine, const TriedKernel& kernel, const Variant& usual,
                              const Variant& candidate, const DownloadFrom& download) {
  const auto sizes = scratch_sizes(kernel.sizes, std::max(usual.chunk, candidate.chunk));
  {
    ScratchTensors tensors(machine, kernel.plan, kernel.numbers, {sizes});
    const Step step = tensors.step_by(candidate);
    if (auto problem = resource_problem(candidate, step.kernel().resources())) return problem;
  }
  const auto expected = left_by(machine, kernel, sizes, usual, download);
  const auto got = left_by(machine, kernel, sizes, candidate, download);
  const auto [at, other] = std::mismatch(expected.begin(), expected.end(), got.begin(), got.end());
  if (at == expected.end() && other == got.end()) return {};
  return Trial{.variant = candidate,
               .status = TrialStatus::wrong_bits,
               .detail = text("byte ", at - expected.begin(), " of ", expected.size(),
                              " differs from what the default leaves")};
}

}  // namespace

std::optional<Trial> resource_problem(const Variant& variant,
                                      const std::vector<Resources>& resources) {
  for (const Resources& entry : resources) {
    const int spilled = entry.spill_store_bytes + entry.spill_load_bytes;
    if (spilled > 0)
      return Trial{.variant = variant,
                   .status = TrialStatus::spills,
                   .detail = text(entry.entry, " spills ", spilled, " bytes")};
    // The hardware gives registers in lots of eight for each thread.
    const int registers = (entry.registers + 7) / 8 * 8 * variant.threads;
    if (registers > kRegisters || entry.shared_bytes > kSharedBytes)
      return Trial{.variant = variant,
                   .status = TrialStatus::exceeds_resources,
                   .detail = text(entry.entry, " takes ", registers, " registers and ",
                                  entry.shared_bytes, " bytes of shared memory in a block")};
  }
  return {};
}

std::optional<Trial> check_candidate(Machine& machine, const TriedKernel& kernel,
                                     const Variant& usual, const Variant& candidate,
                                     const DownloadFrom& download) {
  if (const auto law = variant_problem(kernel.plan, candidate, machine.target()))
    return Trial{.variant = candidate, .status = TrialStatus::exceeds_resources, .detail = *law};
  try {
    return compared(machine, kernel, usual, candidate, download);
  } catch (const Error& error) {
    return Trial{
        .variant = candidate, .status = status_of(error), .detail = first_line(error.what())};
  }
}

}  // namespace jitstep::jit
