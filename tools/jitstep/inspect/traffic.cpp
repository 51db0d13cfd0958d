#include "traffic.h"

#include <jitstep/jit/layout.h>
#include <jitstep/jit/value.h>

#include <jit/base/args.h>
#include <jit/base/text.h>

#include <algorithm>

#include "../cost.h"

namespace jitstep::tool::inspect {
namespace {

using namespace jitstep::jit;

constexpr double kLatencyClocks = 1100;  // of DRAM, as tools/sass.py assumes

// The same matrix as in state_bytes().
Shape matrix() { return {{1024, 1024}, {1024, 1}}; }

// Bytes per element that the reductions over elements of a pass read. Reductions of gradient options read the gradient
// only. For all others this assumes everything that a step reads.
double bytes_of_elements(const Plan& plan, int pass, double gradient, double all) {
  double bytes = 0;
  for (const ResolvedReduction& r : plan.reductions)
    if (r.pass == pass && !r.has_source)
      bytes = std::max(bytes, r.component == kGradientComponent ? gradient : all);
  return bytes;
}

// Bytes per element that the reductions over entries of a pass read: the results of other reductions.
double bytes_of_entries(const Plan& plan, int pass) {
  const Shape shape = matrix();
  double bytes = 0;
  for (const ResolvedReduction& r : plan.reductions) {
    if (r.pass != pass || !r.has_source) continue;
    const auto source = std::find_if(plan.reductions.begin(), plan.reductions.end(),
                                     [&](const auto& q) { return q.number == r.source_number; });
    const auto reduced = r.source_domain.reduced(static_cast<int>(shape.sizes.size()));
    bytes += static_cast<double>(extent(shape, reduced).entries * source->coefficient_bytes);
  }
  return bytes / static_cast<double>(shape.elements());
}

}  // namespace

// Auxiliary state has two buffers. A step reads one and writes the other, so each counts half of its bytes.
std::vector<Traffic> traffic(const Subject& subject) {
  const Plan& plan = subject.plan;
  const StateBytes state = state_bytes(plan, subject.options);
  const double parameter = bytes_of(plan.spec.state.dtype), gradient = bytes_of(plan.spec.gradient);
  const double stored = parameter + state.all - state.aux_state / 2;
  const double transformed = real_bytes(plan.spec.state.dtype);
  // Each launch reads the results of the transforms before it.
  const auto results = [&](std::size_t known) { return static_cast<double>(known) * transformed; };
  std::vector<Traffic> all;
  for (int pass = 0; pass <= plan.passes; ++pass) {
    for (std::size_t k = 0; k < plan.transform_passes.size(); ++k)
      if (pass == plan.transform_passes[k])
        all.push_back({str_cat("jitstep_host_transform", k == 0 ? "" : str_cat("_", k)),
                       stored + gradient + results(k), transformed});
    if (pass == plan.passes) break;
    const double result = results(static_cast<std::size_t>(plan.section_of(pass)));
    all.push_back({str_cat("jitstep_partials_", pass),
                   bytes_of_elements(plan, pass, gradient, stored + gradient + result) +
                       bytes_of_entries(plan, pass),
                   0});
  }
  all.push_back(
      {"jitstep_apply", stored + gradient + results(plan.transform_passes.size()), stored});
  return all;
}

Limit limit(const Subject& subject, const GpuModel& gpu, const Occupancy& occupancy) {
  const std::vector<Traffic> launches = traffic(subject);
  Limit found;
  for (const Traffic& launch : launches) found.bytes += launch.all();
  found.giga_parameters = gpu.gigabytes_per_second / found.bytes;
  const double elements_of_a_lane = static_cast<double>(kLeaf) / subject.config.tile_lanes;
  found.in_flight = occupancy.warps * 32 * elements_of_a_lane * launches.back().read;
  found.needed = gpu.gigabytes_per_second / gpu.multiprocessors / gpu.clock_ghz * kLatencyClocks;
  return found;
}

}  // namespace jitstep::tool::inspect
