#include "jitstep/jit/kernel_config.h"

#include <algorithm>
#include <bit>

#include "jit/base/args.h"
#include "jit/base/text.h"
#include "jit/codegen/translation_unit.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

bool is_power(int x) { return x > 0 && std::has_single_bit(static_cast<unsigned>(x)); }

// The smallest and the largest block of the state. A codec without blocks does not limit the smallest one.
std::pair<int, int> blocks_of(const Plan& plan) {
  int smallest = kLeaf, largest = kLeaf;
  for (int slot = 0; slot < static_cast<int>(plan.spec.state.slots.size()); ++slot) {
    const int block = plan.block(slot);
    if (block > 1) smallest = std::min(smallest, block);
    largest = std::max(largest, block);
  }
  return {smallest, largest};
}

bool is_random(const Plan& plan) {
  bool random = plan.weights->random;
  for (int slot = 0; slot < static_cast<int>(plan.spec.state.slots.size()); ++slot)
    random |= has_random_slot(plan, slot);
  return random;
}

// In elements. The loops over smaller blocks are too short for 512-bit vectors.
constexpr int kWideBlock = 64;

// The preferred vector width for the host compiler, on processors that support it. Encoding and stochastic rounding are
// limited by instructions, so 512 bits are faster. Other kernels are limited by memory, and so is 16-bit state of
// bfloat16 parameters: the compiler's own choice (0) is best for them.
int default_simd_bits(const Plan& plan) {
  if (blocks_of(plan).first < kWideBlock) return 0;
  const Dtype parameter = plan.spec.state.dtype;
  bool halves = false;
  for (int slot = 0; slot < static_cast<int>(plan.spec.state.slots.size()); ++slot) {
    const Manifest* const codec = plan.codec(slot);
    const int bits = codec == nullptr ? 0 : codec->code_bits(parameter);
    if (bits == 16 && parameter == Dtype::bfloat16)
      halves = true;
    else if (bits > 0 && bits <= 16)
      return 512;
  }
  return is_random(plan) && !halves ? 512 : 0;
}

}  // namespace

KernelConfig default_kernel_config(const Plan& plan, const Target& target) {
  const auto [smallest, largest] = blocks_of(plan);
  const int leaves = std::max(16, largest / kLeaf);
  if (target.kind == Target::Kind::cpu)
    return {.threads = 1,
            .tile_lanes = 1,
            .vector_elems = smallest,
            .leaves_per_item = leaves,
            .simd_bits = default_simd_bits(plan)};
  // Eight elements share a draw of random bits.
  return {256, 32, std::min(smallest, is_random(plan) ? 8 : 4), leaves};
}

std::optional<std::string> config_problem(const Plan& plan, const KernelConfig& v,
                                          const Target& target) {
  const auto [smallest, largest] = blocks_of(plan);
  const bool cpu = target.kind == Target::Kind::cpu;
  const bool on_cpu = v.simd_bits != 0 || v.unroll != 0 || v.min_items != 0 || v.max_threads != 0;
  const struct {
    bool holds;
    const char* constraint;
  } constraints[] = {
      {is_power(v.tile_lanes) && is_power(v.vector_elems) && is_power(v.leaves_per_item) &&
           v.tile_lanes <= 32,
       "tile_lanes (at most 32), vector_elems and leaves_per_item must be powers of two"},
      {!cpu || (v.threads == 1 && v.tile_lanes == 1),
       "threads and tile_lanes must be 1 on the CPU"},
      {cpu || !on_cpu, "simd_bits, unroll, min_items and max_threads apply only to the CPU"},
      {v.simd_bits == 0 || v.simd_bits == 128 || v.simd_bits == 256 || v.simd_bits == 512,
       "simd_bits must be 0, 128, 256 or 512"},
      {v.unroll == 0 || v.unroll == 1, "unroll must be 0 or 1"},
      {v.min_items >= 0 && v.max_threads >= 0, "min_items and max_threads must be at least 0"},
      {cpu || (v.threads > 0 && v.threads % 32 == 0 && v.threads <= 1024),
       "threads must be a multiple of 32, at most 1024"},
      {v.tile_lanes < 1 || v.vector_elems <= kLeaf / v.tile_lanes,
       "tile_lanes * vector_elems must be at most 256"},
      {v.vector_elems <= smallest, "vector_elems must be at most the smallest block"},
      {v.leaves_per_item >= largest / kLeaf,
       "leaves_per_item (of 256 elements) must hold the largest block"}};
  for (const auto& [holds, constraint] : constraints)
    if (!holds) return constraint;
  return {};
}

void check_config(const Plan& plan, const KernelConfig& v, const Target& target) {
  if (const auto problem = config_problem(plan, v, target))
    throw Error(
        str_cat("the configuration (", to_string(v), ") cannot run ", plan.name, ": ", *problem));
}

std::span<const ConfigField> config_fields() {
  static constexpr ConfigField kFields[] = {
      {"threads", &KernelConfig::threads, false, 1024},
      {"tile_lanes", &KernelConfig::tile_lanes, false, 32},
      {"vector_elems", &KernelConfig::vector_elems, false, 256},
      {"leaves_per_item", &KernelConfig::leaves_per_item, false, 1 << 20},
      {"simd_bits", &KernelConfig::simd_bits, true, 512},
      {"unroll", &KernelConfig::unroll, true, 1},
      {"min_items", &KernelConfig::min_items, true, 1 << 20},
      {"max_threads", &KernelConfig::max_threads, true, 1 << 20}};
  return kFields;
}

std::string to_string(const KernelConfig& v) {
  const bool cpu = v.threads == 1 && v.tile_lanes == 1;
  std::vector<std::string> parts;
  for (const ConfigField& field : config_fields()) {
    const bool always_one =
        field.member == &KernelConfig::threads || field.member == &KernelConfig::tile_lanes;
    if ((cpu && always_one) || (field.cpu_only && v.*field.member == 0)) continue;
    parts.push_back(str_cat(field.name, " ", v.*field.member));
  }
  return joined(parts, ", ");
}

std::string to_string(Match match) {
  switch (match) {
    case Match::exact:
      return "exact";
    case Match::nearest_size:
      return "nearest size";
    case Match::same_architecture:
      return "same architecture";
    case Match::none:
      return "default";
  }
  throw Error("unknown Match value");
}

}  // namespace jitstep::jit
