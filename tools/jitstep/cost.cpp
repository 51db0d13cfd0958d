#include "cost.h"

#include <jitstep/jit/state_layout.h>

namespace jitstep::tool {

using namespace jitstep::jit;

StateBytes state_bytes(const Plan& plan, const OptionValues& options) {
  const Shape shape{{1024, 1024}, {1024, 1}};
  const StateLayout layout = state_layout(plan, shape, initial_memory(plan, options));
  const double elements = static_cast<double>(shape.elements());
  StateBytes bytes;
  for (std::size_t i = 0; i < layout.slots.size(); ++i)
    bytes.slots.push_back({plan.rule().slots[i].name,
                           static_cast<double>(layout.slots[i].codes) / elements,
                           static_cast<double>(layout.slots[i].meta) / elements});
  for (const StateLayout::Memory& field : layout.memory)
    bytes.memory += 2.0 * static_cast<double>(field.entries * field.bytes) / elements;
  bytes.extra = static_cast<double>(layout.extra) / elements;
  bytes.all = static_cast<double>(layout.bytes()) / elements;
  return bytes;
}

int launches_of(const Plan& plan) {
  return 2 * plan.passes + (plan.rule().host_stage.empty() ? 1 : 2);
}

}  // namespace jitstep::tool
