#include "jitstep/jit/state_storage.h"

namespace jitstep::jit {

std::vector<double> initial_shared_state(const OptionValues& options) {
  std::vector<double> values;
  for (const AuxField& field : options.rule().aux_state)
    if (field.is_shared()) values.push_back(options.initial(field.initial));
  return values;
}

SharedState make_shared_state(Backend& backend, const OptionValues& options) {
  const std::vector<double> values = initial_shared_state(options);
  SharedState shared;
  if (values.empty()) return shared;
  const std::size_t bytes = values.size() * sizeof(double);
  shared.storage = backend.allocate(2 * bytes);
  auto* const first = static_cast<double*>(shared.storage.get());
  shared.buffers = {first, first + values.size()};
  for (double* const half : shared.buffers) backend.upload(half, values.data(), bytes);
  return shared;
}

}  // namespace jitstep::jit
