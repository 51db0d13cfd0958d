// Bad input, refused before anything changes: one sentence that says what is wrong and what to do.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "jitstep/jit/error.h"

namespace jitstep {

/// Runs `check`; a jit::Error it throws about its arguments becomes a c10::Error, as torch's own
/// argument errors are. A failed compile and a failed CUDA call stay what they are.
template <class Check>
auto as_argument_error(Check&& check) {
  try {
    return check();
  } catch (const jit::CompileError&) {
    throw;
  } catch (const jit::CudaError&) {
    throw;
  } catch (const jit::Error& error) {
    TORCH_CHECK(false, error.what());
  }
}

/// What to do about a parameter that neither requires a gradient nor has one. The classes that
/// torch has as well accept it, as torch does, with a warning.
enum class Frozen { warn, refuse };

/// Which parameter a message speaks of.
struct ParameterName {
  std::size_t group = 0;
  std::size_t place = 0;
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
void about_group(std::size_t group, Action&& action) {
  try {
    action();
  } catch (c10::Error& error) {
    error.add_context(c10::str("the options of parameter group ", group));
    throw;
  }
}

/// A c10::Error unless it is a leaf that passes check_tensor.
void check_parameter(const torch::Tensor& parameter, const ParameterName& name);

/// A c10::Error unless it is strided, real floating point of a supported dtype, on a device with
/// kernels, and no two of its elements share memory.
void check_tensor(const torch::Tensor& parameter, const ParameterName& name);

/// Refuses, or warns once about, the parameters of a group that would never be trained.
void check_frozen(const std::vector<torch::Tensor>& parameters, std::size_t group, Frozen frozen);

/// A c10::Error unless the gradient is dense, floating point, of the parameter's shape and device,
/// and both have memory of their own. (A gradient that is the parameter itself will do: each element
/// is read before it is written.) Cheap when all is well.
void check_gradient(const torch::Tensor& parameter, const torch::Tensor& gradient,
                    const ParameterName& name);

}  // namespace jitstep
