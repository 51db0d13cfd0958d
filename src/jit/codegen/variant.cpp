#include "jitstep/jit/variant.h"

#include <algorithm>
#include <bit>

#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

bool is_power(int x) { return x > 0 && std::has_single_bit(static_cast<unsigned>(x)); }

// The smallest and the largest block of the state; no block is smaller than none.
std::pair<int, int> blocks_of(const Plan& plan) {
  int smallest = kLeaf, largest = kLeaf;
  for (int slot = 0; slot < static_cast<int>(plan.spec.state.slots.size()); ++slot) {
    const int block = plan.block(slot);
    if (block > 1) smallest = std::min(smallest, block);
    largest = std::max(largest, block);
  }
  return {smallest, largest};
}

// A codec may leave it to the option `stochastic`.
bool is_random(const Plan& plan, int slot) {
  const Manifest* const codec = plan.codec(slot);
  if (codec == nullptr || !codec->random) return false;
  const NamedValues& options = plan.spec.state.slots[static_cast<std::size_t>(slot)]->options;
  const auto chosen = options.find("stochastic");
  return chosen == options.end() || chosen->second.boolean();
}

bool is_random(const Plan& plan) {
  bool random = plan.weights->random;
  for (int slot = 0; slot < static_cast<int>(plan.spec.state.slots.size()); ++slot)
    random |= is_random(plan, slot);
  return random;
}

// Elements, below which a block's loops are over too soon for vectors of 512 bits.
constexpr int kWideBlock = 64;

// How wide a host compiler is to make vectors, where the processor has such: what codes or draws is limited by its
// instructions, the rest by memory, for which the compiler knows best (0). So is state of 16 bits beside bfloat16.
int default_width(const Plan& plan) {
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

Variant default_variant(const Plan& plan, const Target& target) {
  const auto [smallest, largest] = blocks_of(plan);
  const int chunk = std::max(16, largest / kLeaf);
  if (target.kind == Target::Kind::cpu)
    return {
        .threads = 1, .lanes = 1, .vector = smallest, .chunk = chunk, .width = default_width(plan)};
  // Eight elements share a draw of random bits.
  return {256, 32, std::min(smallest, is_random(plan) ? 8 : 4), chunk};
}

std::optional<std::string> variant_problem(const Plan& plan, const Variant& v,
                                           const Target& target) {
  const auto [smallest, largest] = blocks_of(plan);
  const bool cpu = target.kind == Target::Kind::cpu;
  const bool on_cpu = v.width != 0 || v.unroll != 0 || v.grain != 0 || v.workers != 0;
  const struct {
    bool holds;
    const char* law;
  } laws[] = {{is_power(v.lanes) && is_power(v.vector) && is_power(v.chunk) && v.lanes <= 32,
               "lanes (at most 32), vector and chunk are powers of two"},
              {!cpu || (v.threads == 1 && v.lanes == 1), "threads and lanes are 1 on the CPU"},
              {cpu || !on_cpu, "width, unroll, grain and workers are for the CPU"},
              {v.width == 0 || v.width == 128 || v.width == 256 || v.width == 512,
               "width is 0, 128, 256 or 512"},
              {v.unroll == 0 || v.unroll == 1, "unroll is 0 or 1"},
              {v.grain >= 0 && v.workers >= 0, "grain and workers are at least 0"},
              {cpu || (v.threads > 0 && v.threads % 32 == 0 && v.threads <= 1024),
               "threads are a multiple of 32, at most 1024"},
              {v.lanes < 1 || v.vector <= kLeaf / v.lanes, "lanes * vector is at most 256"},
              {v.vector <= smallest, "vector is at most the smallest block"},
              {v.chunk >= largest / kLeaf, "a chunk holds the largest block"}};
  for (const auto& [holds, law] : laws)
    if (!holds) return law;
  return {};
}

void check_variant(const Plan& plan, const Variant& v, const Target& target) {
  if (const auto problem = variant_problem(plan, v, target))
    throw Error(text("the variant (", to_string(v), ") cannot run ", plan.name, ": ", *problem));
}

std::string to_string(const Variant& v) {
  const bool cpu = v.threads == 1 && v.lanes == 1;
  std::string out = cpu ? "" : text("threads ", v.threads, ", lanes ", v.lanes, ", ");
  out += text("vector ", v.vector, ", chunk ", v.chunk);
  const auto add = [&](const char* name, int value) {
    if (value != 0) out += text(", ", name, " ", value);
  };
  add("width", v.width);
  add("unroll", v.unroll);
  add("grain", v.grain);
  add("workers", v.workers);
  return out;
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
  throw Error("a Match of an unknown kind");
}

}  // namespace jitstep::jit
