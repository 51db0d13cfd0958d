// Errors as torch's users expect them: c10::Error, with the parameter or group that it is about.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "jitstep/engine_error.h"

namespace jitstep {

/// Runs `action`; a jit::Error it throws, about its arguments or a compiler that is missing, becomes an
/// EngineError, which is a c10::Error as torch's own are. A failed compile and a failed CUDA call stay what they are.
template <class Action>
auto as_torch_error(Action&& action) {
  try {
    return action();
  } catch (const jit::CompileError&) {
    throw;
  } catch (const jit::CudaError&) {
    throw;
  } catch (const jit::Error& error) {
    throw EngineError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, error);
  }
}

/// The same, of arguments.
template <class Check>
auto rethrow_as_torch_error(Check&& check) {
  return as_torch_error(std::forward<Check>(check));
}

/// Which parameter a message speaks of.
struct ParameterName {
  std::size_t group = 0;
  std::size_t index = 0;
};

/// "parameter 3 of group 0 (float32 [5, 2])".
std::string describe(const torch::Tensor& parameter, const ParameterName& name);

/// Runs `action`; a c10::Error it throws says which parameter it was about.
template <class Action>
auto about(const torch::Tensor& parameter, const ParameterName& name, Action&& action) {
  try {
    return action();
  } catch (c10::Error& error) {
    error.add_context(describe(parameter, name));
    throw;
  }
}

/// The same for the options of a parameter group.
template <class Action>
void with_group_context(std::size_t group, Action&& action) {
  try {
    action();
  } catch (c10::Error& error) {
    error.add_context(c10::str("the options of parameter group ", group));
    throw;
  }
}

}  // namespace jitstep
