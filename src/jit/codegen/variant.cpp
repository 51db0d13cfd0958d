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

}  // namespace

Variant default_variant(const Plan& plan, const Target& target) {
  const auto [smallest, largest] = blocks_of(plan);
  const int chunk = std::max(16, largest / kLeaf);
  if (target.kind == Target::Kind::cpu) return {1, 1, smallest, chunk};
  // Eight elements share a draw of random bits.
  return {256, 32, std::min(smallest, is_random(plan) ? 8 : 4), chunk};
}

void check_variant(const Plan& plan, const Variant& v, const Target& target) {
  const auto need = [&](bool holds, const char* what) {
    if (holds) return;
    throw Error(text("the variant {", v.threads, ", ", v.lanes, ", ", v.vector, ", ", v.chunk,
                     "} (threads, lanes, vector, chunk) cannot run ", plan.name, ": ", what));
  };
  const auto [smallest, largest] = blocks_of(plan);
  const bool cpu = target.kind == Target::Kind::cpu;
  need(is_power(v.lanes) && is_power(v.vector) && is_power(v.chunk) && v.lanes <= 32,
       "lanes (at most 32), vector and chunk are powers of two");
  need(!cpu || (v.threads == 1 && v.lanes == 1), "threads and lanes are 1 on the CPU");
  need(cpu || (v.threads > 0 && v.threads % 32 == 0 && v.threads <= 1024),
       "threads are a multiple of 32, at most 1024");
  need(v.vector <= kLeaf / v.lanes, "lanes * vector is at most 256");
  need(v.vector <= smallest, "vector is at most the smallest block");
  need(v.chunk >= largest / kLeaf, "a chunk holds the largest block");
}

}  // namespace jitstep::jit
