// One tensor of a case on a back end: parameter, gradient and state.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "emulation/guarded_buffer.h"
#include "emulation/step_case.h"
#include "jitstep/jit/backend.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/step.h"

namespace jitstep::emulation {

struct TensorData {
  GuardedBuffer p, g, residual;
  std::vector<GuardedBuffer> codes = {}, meta = {};
  std::vector<std::array<GuardedBuffer, 2>> aux_state = {};
  std::vector<GuardedBuffer> inputs = {};  // of the rule, in addition to the gradient
  jit::StepTensor tensor = {};
  std::shared_ptr<void> step_offset = {};  // an int64 on the device; null if the host counts steps
  std::int64_t n = 0;
  std::int64_t t = 0;        // steps, without skipped ones
  std::int64_t counted = 0;  // steps, with skipped ones
};

/// Creates the tensor before its first step, and uploads all but the inputs. Each step uploads the gradient and the inputs.
/// Tensors with an even id have inputs. `random` generates the parameter's values.
TensorData make_tensor(jit::Backend& backend, const jit::Plan& plan,
                       const jit::OptionValues& options, const TensorCase& c, int id,
                       std::mt19937_64& random);

/// Allocates a value in device memory.
template <class T>
std::shared_ptr<void> on_device(jit::Backend& backend, T value) {
  std::shared_ptr<void> memory = backend.allocate(sizeof value);
  backend.upload(memory.get(), &value, sizeof value);
  return memory;
}

}  // namespace jitstep::emulation
