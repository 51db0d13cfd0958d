#include "jit/search/candidate_check.h"

#include <algorithm>

#include "jit/base/args.h"
#include "jit/base/interrupt.h"
#include "jit/base/lines.h"
#include "jit/base/text.h"
#include "jit/compiler/compile_failure.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

constexpr int kSteps = 2;  // the second step reads the state that the first one has written
constexpr int kRegisters = 65536, kSharedBytes = 48 << 10;
constexpr int kLaunchOutOfResources = 701;  // CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES

int spill_of(const Resources& entry) { return entry.spill_store_bytes + entry.spill_load_bytes; }

constexpr int kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY

// Whether another check may succeed. Exceptions that are no Error come from allocations by the program, such as those
// of torch.
bool is_temporary(const std::exception& error) {
  if (const auto* const of_driver = dynamic_cast<const CudaError*>(&error))
    return of_driver->code() == kOutOfMemory;
  if (dynamic_cast<const ToolchainError*>(&error) != nullptr)
    return dynamic_cast<const CompilerFault*>(&error) == nullptr;
  return dynamic_cast<const Error*>(&error) == nullptr;
}

// A driver reports at the launch that a block needs too many registers.
TrialStatus status_of(const Error& error) {
  const auto* const of_driver = dynamic_cast<const CudaError*>(&error);
  return of_driver != nullptr && of_driver->code() == kLaunchOutOfResources
             ? TrialStatus::exceeds_resources
             : TrialStatus::does_not_compile;
}

// Sizes with the same number of dimensions, two chunks and a partial one. A smaller tensor keeps its sizes.
std::vector<std::int64_t> scratch_sizes(const std::vector<std::int64_t>& sizes, int chunk) {
  const std::int64_t wanted = std::int64_t{2} * chunk * kLeaf + 77;
  if (Shape{sizes, {}}.elements() <= wanted) return sizes;
  std::vector<std::int64_t> result(sizes.size(), 1);
  constexpr std::int64_t kColumns = 96;
  result.back() = sizes.size() == 1 ? wanted : kColumns;
  if (sizes.size() > 1) result[result.size() - 2] = wanted / kColumns;
  return result;
}

std::vector<std::byte> left_by(Backend& backend, const Candidate& kernel,
                               const std::vector<std::int64_t>& sizes, const KernelConfig& config,
                               const DownloadFrom& download) {
  ScratchTensors tensors(backend, kernel.plan, kernel.numbers, {sizes});
  Step step = tensors.step_by(config);
  for (int i = 0; i < kSteps; ++i) tensors.run(step);
  return tensors.content(download);
}

std::vector<Resources> resources_of(Backend& backend, const Candidate& kernel,
                                    const std::vector<std::int64_t>& sizes,
                                    const KernelConfig& config) {
  ScratchTensors tensors(backend, kernel.plan, kernel.numbers, {sizes});
  return tensors.step_by(config).kernel().resources();
}

std::optional<Trial> compared(Backend& backend, const Candidate& kernel,
                              const KernelConfig& default_config, const KernelConfig& candidate,
                              const DownloadFrom& download) {
  const auto sizes = scratch_sizes(
      kernel.sizes, std::max(default_config.leaves_per_item, candidate.leaves_per_item));
  // Some default configurations spill, because more threads at a time are worth it (kernel/occupancy.cuh).
  const int permitted = 2 * largest_spill(resources_of(backend, kernel, sizes, default_config));
  if (auto problem =
          resource_problem(candidate, resources_of(backend, kernel, sizes, candidate), permitted))
    return problem;
  const auto expected = left_by(backend, kernel, sizes, default_config, download);
  const auto got = left_by(backend, kernel, sizes, candidate, download);
  const auto [at, other] = std::mismatch(expected.begin(), expected.end(), got.begin(), got.end());
  if (at == expected.end() && other == got.end()) return {};
  return Trial{.config = candidate,
               .status = TrialStatus::wrong_bits,
               .detail = str_cat("byte ", at - expected.begin(), " of ", expected.size(),
                                 " differs from the result of the default")};
}

}  // namespace

int largest_spill(const std::vector<Resources>& resources) {
  int most = 0;
  for (const Resources& entry : resources) most = std::max(most, spill_of(entry));
  return most;
}

std::optional<Trial> resource_problem(const KernelConfig& config,
                                      const std::vector<Resources>& resources,
                                      int permitted_spill) {
  for (const Resources& entry : resources) {
    const int spilled = spill_of(entry);
    if (spilled > permitted_spill)
      return Trial{.config = config,
                   .status = TrialStatus::spills,
                   .detail = str_cat(entry.entry, " spills ", spilled, " bytes")};
    // The hardware allocates registers in units of eight per thread.
    const int registers = (entry.registers + 7) / 8 * 8 * config.threads;
    if (registers > kRegisters || entry.shared_bytes > kSharedBytes)
      return Trial{.config = config,
                   .status = TrialStatus::exceeds_resources,
                   .detail = str_cat(entry.entry, " needs ", registers, " registers and ",
                                     entry.shared_bytes, " bytes of shared memory per block")};
  }
  return {};
}

std::optional<Trial> check_candidate(Backend& backend, const Candidate& kernel,
                                     const KernelConfig& default_config,
                                     const KernelConfig& candidate, const DownloadFrom& download) {
  if (const auto constraint = config_problem(kernel.plan, candidate, backend.target()))
    return Trial{
        .config = candidate, .status = TrialStatus::exceeds_resources, .detail = *constraint};
  try {
    return compared(backend, kernel, default_config, candidate, download);
  } catch (const Error& error) {
    if (is_temporary(error)) throw;
    return Trial{
        .config = candidate, .status = status_of(error), .detail = first_line(error.what())};
  }
}

bool check_next(ConfigSearch& search, const std::function<std::optional<Trial>()>& check) {
  try {
    const std::optional<Trial> problem = check();
    if (problem) search.reject(problem->status, problem->detail);
    return !problem;
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    const std::string cause = first_line(error.what());
    if (is_temporary(error))
      search.leave_out(cause);
    else
      search.reject(TrialStatus::exceeds_resources, cause);
    return false;
  }
}

}  // namespace jitstep::jit
