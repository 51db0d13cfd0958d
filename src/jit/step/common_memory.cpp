#include "jitstep/jit/common_memory.h"

namespace jitstep::jit {

std::vector<double> initial_common_memory(const OptionValues& options) {
  std::vector<double> values;
  for (const MemoryField& field : options.rule().memory)
    if (field.is_common()) values.push_back(options.initial(field.initial));
  return values;
}

CommonMemory make_common_memory(Machine& machine, const OptionValues& options) {
  const std::vector<double> values = initial_common_memory(options);
  CommonMemory memory;
  if (values.empty()) return memory;
  const std::size_t bytes = values.size() * sizeof(double);
  memory.storage = machine.allocate(2 * bytes);
  auto* const first = static_cast<double*>(memory.storage.get());
  memory.halves = {first, first + values.size()};
  for (double* const half : memory.halves) machine.upload(half, values.data(), bytes);
  return memory;
}

}  // namespace jitstep::jit
