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

/// A c10::Error unless it is a leaf, strided, real floating point of a supported dtype, and no two of
/// its elements share memory.
void check_parameter(const torch::Tensor& parameter, const ParameterName& name);

/// Refuses, or warns once about, the parameters of a group that would never be trained.
void check_frozen(const std::vector<torch::Tensor>& parameters, std::size_t group, Frozen frozen);

/// A c10::Error unless the gradient is dense, floating point, of the parameter's shape and device.
/// Cheap when it is.
void check_gradient(const torch::Tensor& parameter, const torch::Tensor& gradient,
                    const ParameterName& name);

}  // namespace jitstep
