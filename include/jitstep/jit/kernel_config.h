// Launch configurations: threads, vector widths and work per item. They never change results.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>

#include "jitstep/hyper_params.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/target.h"

namespace jitstep {

/// Compares field by field, in order of declaration.
inline auto operator<=>(const KernelConfig& a, const KernelConfig& b) {
  const auto fields = [](const KernelConfig& v) {
    return std::tie(v.threads, v.tile_lanes, v.vector_elems, v.leaves_per_item, v.simd_bits,
                    v.unroll, v.min_items, v.max_threads);
  };
  return fields(a) <=> fields(b);
}
inline bool operator==(const KernelConfig& a, const KernelConfig& b) { return (a <=> b) == 0; }

}  // namespace jitstep

namespace jitstep::jit {

using jitstep::KernelConfig;

/// The configuration of a kernel without tuning records.
JITSTEP_API KernelConfig default_kernel_config(const Plan& plan, const Target& target);

/// The constraint that this configuration violates, or nothing if the kernel can run with it.
JITSTEP_API std::optional<std::string> config_problem(const Plan& plan, const KernelConfig& config,
                                                      const Target& target);

/// Throws an Error with config_problem(), if there is one.
JITSTEP_API void check_config(const Plan& plan, const KernelConfig& config, const Target& target);

/// A member of KernelConfig by its name, as `--config`, tuning records and reports spell it.
struct ConfigField {
  const char* name;
  int KernelConfig::*member;
  bool cpu_only;  // 0 on GPUs
  int most;       // the largest value in any tuning record
};

/// All members of KernelConfig, in the order of declaration.
JITSTEP_API std::span<const ConfigField> config_fields();

/// "threads 256, tile_lanes 32, vector_elems 4, leaves_per_item 16". On the CPU, `threads` and `tile_lanes` are always
/// 1 and left out, and members for the CPU alone follow if they are not 0: "vector_elems 256, leaves_per_item 64,
/// unroll 1".
JITSTEP_API std::string to_string(const KernelConfig& config);

/// Work of one launch of a kernel.
struct WorkSize {
  std::int64_t elements = 0;  // of all tensors
  std::int64_t tensors = 1;
  auto operator<=>(const WorkSize&) const = default;
};

/// How well a tuning record fits a kernel.
enum class Match { exact, nearest_size, same_architecture, none };

/// "exact", "nearest size", "same architecture" or "default".
JITSTEP_API std::string to_string(Match match);

/// The configuration of a kernel and the reason for it.
struct JITSTEP_API ConfigChoice {
  KernelConfig config = {};
  Match match = Match::none;
  double distance = 0;                                   // log2 of the ratio to the measured size
  std::string why = "this kernel has no tuning record";  // a sentence without its period
};

/// Chooses the configuration of a kernel for the work of one launch. It must be thread safe if its back end is.
using ConfigProvider = std::function<ConfigChoice(const Plan& plan, const WorkSize& size)>;

}  // namespace jitstep::jit
