#include "cost.h"

#include <jitstep/jit/layout.h>
#include <jitstep/jit/plan.h>

#include <algorithm>

namespace jitstep::tool {

using namespace jitstep::jit;

StateBytes state_bytes(const Plan& plan, const OptionValues& options) {
  const Shape shape{{1024, 1024}, {1024, 1}};
  const StateLayout layout = state_layout(plan, shape, initial_aux_state(plan, options));
  const double elements = static_cast<double>(shape.elements());
  StateBytes bytes;
  for (std::size_t i = 0; i < layout.slots.size(); ++i)
    bytes.slots.push_back({plan.rule().slots[i].name,
                           static_cast<double>(layout.slots[i].codes) / elements,
                           static_cast<double>(layout.slots[i].meta) / elements});
  for (const StateLayout::AuxState& field : layout.aux_state)
    bytes.aux_state += static_cast<double>(field.total_bytes()) / elements;
  bytes.residual = static_cast<double>(layout.residual) / elements;
  bytes.all = static_cast<double>(layout.bytes()) / elements;
  return bytes;
}

int launches_of(const Plan& plan) {
  return 2 * plan.passes + static_cast<int>(plan.transform_passes.size()) + 1;
}

std::vector<std::string> codec_columns(const Catalog& catalog) {
  std::vector<std::string> names = catalog.names(Manifest::Kind::codec);
  std::stable_partition(names.begin(), names.end(),
                        [](const auto& name) { return name == "fp32"; });
  return names;
}

Plan chosen_kernel(const OptionValues& options, int dims, const std::string& codec) {
  return resolve(options, {.state = CodecChoice{codec}},
                 {.dtype = Dtype::float32, .dims = dims, .elements = 1 << 20});
}

}  // namespace jitstep::tool
