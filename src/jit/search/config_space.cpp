#include "jit/search/config_space.h"

#include <algorithm>
#include <utility>

namespace jitstep::jit {
namespace {

std::vector<TunedParameter> cpu_parameters(bool avx512, bool several_threads) {
  std::vector<TunedParameter> parameters = {
      {"leaves_per_item", &KernelConfig::leaves_per_item, {4, 16, 64, 256}},
      {"unroll", &KernelConfig::unroll, {0, 1}}};
  if (avx512) parameters.push_back({"simd_bits", &KernelConfig::simd_bits, {0, 256, 512}});
  if (several_threads) {
    parameters.push_back({"min_items", &KernelConfig::min_items, {0, 1, 32}});
    parameters.push_back({"max_threads", &KernelConfig::max_threads, {0, 1}});
  }
  return parameters;
}

std::vector<TunedParameter> gpu_parameters() {
  return {{"threads", &KernelConfig::threads, {64, 128, 256, 512}},
          {"tile_lanes", &KernelConfig::tile_lanes, {4, 8, 16, 32}},
          {"vector_elems", &KernelConfig::vector_elems, {1, 2, 4, 8, 16}},
          {"leaves_per_item", &KernelConfig::leaves_per_item, {4, 16, 64}}};
}

void insert(std::vector<int>& values, int value) {
  const auto location = std::lower_bound(values.begin(), values.end(), value);
  if (location == values.end() || *location != value) values.insert(location, value);
}

ConfigSpace space_of(const Plan& plan, const Target& target,
                     std::vector<TunedParameter> parameters) {
  const KernelConfig default_config = default_kernel_config(plan, target);
  for (TunedParameter& parameter : parameters)
    insert(parameter.values, default_config.*parameter.field);
  return {plan, target, std::move(parameters)};
}

}  // namespace

ConfigSpace config_space(const Plan& plan, const Hardware& hardware) {
  const bool cpu = hardware.target.kind == Target::Kind::cpu;
  const bool avx512 = hardware.architecture.ends_with("avx512");
  return space_of(plan, hardware.target,
                  cpu ? cpu_parameters(avx512, hardware.units > 1) : gpu_parameters());
}

std::vector<KernelConfig> common_candidates(const Plan& plan, const Target& target) {
  const bool cpu = target.kind == Target::Kind::cpu;
  const ConfigSpace space =
      space_of(plan, target, cpu ? cpu_parameters(true, true) : gpu_parameters());
  const KernelConfig default_config = default_kernel_config(plan, target);
  std::vector<KernelConfig> result = space.single_changes(default_config);
  result.resize(kCommonCandidates, default_config);
  return result;
}

bool ConfigSpace::holds(const KernelConfig& config) const {
  KernelConfig rest = default_kernel_config(plan, target);
  for (const TunedParameter& parameter : parameters) {
    const auto& values = parameter.values;
    if (std::find(values.begin(), values.end(), config.*parameter.field) == values.end())
      return false;
    rest.*parameter.field = config.*parameter.field;
  }
  return rest == config && !config_problem(plan, config, target);
}

std::vector<KernelConfig> ConfigSpace::all() const {
  const KernelConfig default_config = default_kernel_config(plan, target);
  std::vector<KernelConfig> result = {default_config};
  for (const TunedParameter& parameter : parameters) {
    std::vector<KernelConfig> more;
    for (const KernelConfig& config : result)
      for (const int value : parameter.values) {
        more.push_back(config);
        more.back().*parameter.field = value;
      }
    result = std::move(more);
  }
  std::erase_if(result, [&](const KernelConfig& v) { return config_problem(plan, v, target); });
  std::rotate(result.begin(), std::find(result.begin(), result.end(), default_config),
              std::find(result.begin(), result.end(), default_config) + 1);
  return result;
}

std::vector<KernelConfig> ConfigSpace::neighbors(const KernelConfig& config) const {
  std::vector<KernelConfig> near;
  for (const KernelConfig& other : single_changes(config)) {
    const auto is_next = [&](const TunedParameter& parameter) {
      const auto location = [&](int value) {
        return std::find(parameter.values.begin(), parameter.values.end(), value);
      };
      const auto steps = location(other.*parameter.field) - location(config.*parameter.field);
      return steps >= -1 && steps <= 1;
    };
    if (std::all_of(parameters.begin(), parameters.end(), is_next)) near.push_back(other);
  }
  return near;
}

std::vector<KernelConfig> ConfigSpace::single_changes(const KernelConfig& config) const {
  std::vector<KernelConfig> changed;
  for (const TunedParameter& parameter : parameters)
    for (const int value : parameter.values) {
      KernelConfig other = config;
      other.*parameter.field = value;
      if (other != config && holds(other)) changed.push_back(other);
    }
  return changed;
}

}  // namespace jitstep::jit
