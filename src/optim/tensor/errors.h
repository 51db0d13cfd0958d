// Conversion of jit errors to c10::Error, and context for error messages: the parameter or the group.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "jitstep/library.h"

namespace jitstep {

/// Runs `action` and converts a jit::Error (wrong arguments, a missing compiler) to an EngineError, which is a
/// c10::Error. CompileError and CudaError pass through unchanged.
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

/// A parameter in a message: its group, and its index in the group.
struct ParameterName {
  std::size_t group = 0;
  std::size_t index = 0;
};

/// "float32 [5, 2]": dtype and shape of a tensor, with torch's internal name of a dtype that jitstep does not support.
std::string describe(const torch::Tensor& tensor);

/// "parameter 3 of group 0 (float32 [5, 2])".
std::string describe(const torch::Tensor& parameter, const ParameterName& name);

/// Runs `action` and adds the parameter to a c10::Error that it throws.
template <class Action>
auto with_context(const torch::Tensor& parameter, const ParameterName& name, Action&& action) {
  try {
    return action();
  } catch (c10::Error& error) {
    error.add_context(describe(parameter, name));
    throw;
  }
}

/// Runs `action` and adds the parameter group to a c10::Error that it throws.
template <class Action>
auto with_group_context(std::size_t group, Action&& action) {
  try {
    return action();
  } catch (c10::Error& error) {
    error.add_context(c10::str("the options of parameter group ", group));
    throw;
  }
}

}  // namespace jitstep
