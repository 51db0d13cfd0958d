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
  SharedState aux_state;
  if (values.empty()) return aux_state;
  const std::size_t bytes = values.size() * sizeof(double);
  aux_state.storage = backend.allocate(2 * bytes);
  auto* const first = static_cast<double*>(aux_state.storage.get());
  aux_state.buffers = {first, first + values.size()};
  for (double* const half : aux_state.buffers) backend.upload(half, values.data(), bytes);
  return aux_state;
}

}  // namespace jitstep::jit
