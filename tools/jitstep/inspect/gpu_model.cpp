#include "gpu_model.h"

#include <algorithm>
#include <array>
#include <utility>

namespace jitstep::tool::inspect {
namespace {

constexpr int kKilobyte = 1024;
constexpr std::array<GpuModel, 7> kModels = {{
    {75, "T4", 40, 1.59, 320, 1024, 16, 64 * kKilobyte},
    {80, "A100 SXM 80 GB", 108, 1.41, 2039, 2048, 32, 164 * kKilobyte},
    {86, "RTX 3090", 82, 1.695, 936, 1536, 16, 100 * kKilobyte},
    {89, "RTX 4090", 128, 2.52, 1008, 1536, 24, 100 * kKilobyte},
    {90, "H100 SXM", 132, 1.755, 3350, 2048, 32, 228 * kKilobyte},
    {100, "B200", 148, 1.965, 8000, 2048, 32, 228 * kKilobyte},
    {120, "RTX 5090", 170, 2.407, 1792, 1536, 24, 100 * kKilobyte},
}};

int rounded_up(int x, int unit) { return (x + unit - 1) / unit * unit; }

}  // namespace

const GpuModel& gpu_model(int sm) {
  const auto newer = std::find_if(kModels.begin() + 1, kModels.end(),
                                  [&](const GpuModel& gpu) { return gpu.sm > sm; });
  return *(newer - 1);
}

// The hardware allocates registers in units of 256 per warp, which is 8 per thread. From sm_80 on, it reserves 1 KB of
// shared memory per block.
Occupancy occupancy(const GpuModel& gpu, const jit::Resources& entry, int threads) {
  const int warps = rounded_up(threads, 32) / 32;
  const int of_a_warp = rounded_up(std::max(entry.registers, 1), 8) * 32;
  const int shared =
      rounded_up(entry.shared_bytes, gpu.sm < 80 ? 256 : 128) + (gpu.sm < 80 ? 0 : kKilobyte);
  const std::pair<int, const char*> limits[] = {
      {gpu.threads / (32 * warps), "threads"},
      {gpu.blocks, "blocks"},
      {gpu.registers / of_a_warp / warps, "registers"},
      {shared == 0 ? gpu.blocks : gpu.shared_bytes / shared, "shared memory"}};
  const auto least = std::min_element(std::begin(limits), std::end(limits),
                                      [](auto& a, auto& b) { return a.first < b.first; });
  return {least->first, least->first * warps,
          static_cast<double>(least->first * warps * 32) / gpu.threads, least->second};
}

}  // namespace jitstep::tool::inspect
