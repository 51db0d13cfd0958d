#include "tuning/compiled_model.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "jit/codegen/unit.h"
#include "jit/search/config_space.h"
#include "jitstep/jit/error.h"

namespace jitstep::tuning {
namespace {

using Variants = std::vector<jit::KernelConfig>;

// Configurations that differ from the default in one field first, then the rest.
Variants nearest_first(const jit::ConfigSpace& space) {
  Variants ordered = space.single_changes(jit::default_kernel_config(space.plan, space.target));
  for (const jit::KernelConfig& one : space.all())
    if (std::find(ordered.begin(), ordered.end(), one) == ordered.end()) ordered.push_back(one);
  return ordered;
}

// Builds in parallel. The engine caches successes and failures, so errors are ignored here.
void build_at_once(jit::Engine& engine, const jit::Plan& plan, const jit::Target& target,
                   const Variants& configs) {
  std::vector<jit::NamedText> units;
  for (const jit::KernelConfig& one : configs) {
    jit::Unit made = jit::unit(plan, one, target);
    units.push_back({std::move(made.text), std::move(made.name)});
  }
  try {
    engine.build_all(units, target);
  } catch (const jit::CompileError&) {
  }
}

ResourcesOf resources_by(jit::Engine& engine, const jit::Plan& plan, const jit::Target& target) {
  return [&engine, plan, target](const jit::KernelConfig& config) {
    const jit::Unit made = jit::unit(plan, config, target);
    return engine.build(made.text, made.name, target)->binary.resources;
  };
}

constexpr double kUnknown = std::numeric_limits<double>::infinity();

double cost_or_unknown(const Model& cost, const jit::KernelConfig& config) {
  try {
    return cost(config);
  } catch (const jit::CompileError&) {
    return kUnknown;
  }
}

using Costs = std::map<jit::KernelConfig, double>;

Costs costs_by(jit::Engine& engine, const Workload& workload, const jit::Hardware& gpu,
               double seconds, const Clock& clock) {
  const double end = clock() + seconds;
  const double bytes = moved_bytes(workload) / static_cast<double>(2 * workload.size().elements);
  const Model cost = gpu_model(resources_by(engine, workload.plan, gpu.target), bytes);
  const Variants all = nearest_first(jit::config_space(workload.plan, gpu));
  const std::ptrdiff_t at_once = jit::host_hardware().units;
  Costs known;
  for (auto next = all.begin(); next != all.end() && clock() < end;) {
    const auto last = next + std::min(at_once, all.end() - next);
    const Variants some(next, last);
    build_at_once(engine, workload.plan, gpu.target, some);
    for (const jit::KernelConfig& one : some) known[one] = cost_or_unknown(cost, one);
    next = last;
  }
  return known;
}

}  // namespace

Model compiled_model(jit::Engine& engine, const Workload& workload, const jit::Hardware& gpu,
                     double seconds, const Clock& clock) {
  const auto known = std::make_shared<std::optional<Costs>>();
  return [=, &engine](const jit::KernelConfig& config) {
    if (!*known) *known = costs_by(engine, workload, gpu, seconds, clock);
    const auto found = (*known)->find(config);
    return found == (*known)->end() ? kUnknown : found->second;
  };
}

}  // namespace jitstep::tuning
