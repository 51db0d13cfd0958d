#include "optim/state/slots_by_name.h"

#include <algorithm>

namespace jitstep {

std::ptrdiff_t number_among(const std::vector<jit::Slot>& slots, const jit::Slot& slot) {
  const auto found = std::find_if(slots.begin(), slots.end(),
                                  [&](const jit::Slot& one) { return one.name == slot.name; });
  return found == slots.end() ? -1 : found - slots.begin();
}

bool has_codes(const StateBuffers& buffers, std::ptrdiff_t slot) {
  return slot >= 0 && slot < std::ssize(buffers.slots) &&
         buffers.slots[static_cast<std::size_t>(slot)].codes.defined();
}

bool has_slots(const StateBuffers& buffers) {
  const auto& slots = buffers.slots;
  return std::any_of(slots.begin(), slots.end(), [](auto& slot) { return slot.codes.defined(); });
}

std::vector<double> in_order_of(const std::vector<jit::Slot>& order,
                                const std::vector<jit::Slot>& slots,
                                const std::vector<double>& initial) {
  std::vector<double> ordered(order.size());
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (const auto number = number_among(order, slots[i]); number >= 0)
      ordered[static_cast<std::size_t>(number)] = initial.at(i);
  return ordered;
}

}  // namespace jitstep
