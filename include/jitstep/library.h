// Functions of the whole library: load rules and codecs from files, register host transforms, count compiled kernels.
// The exception that the front end throws if the engine fails.
#pragma once

#include <c10/util/Exception.h>
#include <torch/optim/optimizer.h>  // torch::Tensor, in a tenth of the compile time of torch/torch.h

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <string>

#include "jitstep/jit/engine.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/option_values.h"

namespace jitstep {

/// Loads a rule or codec from a file and returns its name, which is the file's stem. Every optimizer that is
/// constructed later can use it. If the file or one of its includes has changed, loading it again adds a new revision.
/// Existing optimizers continue with the revision that they started with. Thread safe. Throws a jit::Error that names
/// the fault in the file. The file is code: it must belong to this user and must not be writable by others.
JITSTEP_API std::string load_rule(const std::string& path);
JITSTEP_API std::string load_codec(const std::string& path);

/// A host transform. `values` has one element per element of one parameter, as the rule's function returned it. It
/// is a dense tensor of the parameter's sizes on the parameter's device, in float32, or float64 for a float64
/// parameter. The result must have the same sizes. The rule reads it as e.transformed, or e.NAME. `options` are
/// those of the parameter's group. Called in every step, without autograd, on the current stream. Several threads may
/// call it at once if several optimizers step. If it throws, step() throws the same exception and nothing has changed.
using TransformFunction =
    std::function<torch::Tensor(const torch::Tensor& values, const jit::OptionValues& options)>;

/// Registers the host transform that rules name by `// host transform: NAME`, for every optimizer that is constructed
/// later. Thread safe. Throws a c10::Error if the name exists. `newton_schulz`, the iteration of torch's Muon, is built
/// in.
JITSTEP_API void register_host_transform(const std::string& name, TransformFunction function);

/// What a host transform gets for one parameter in one step.
struct JITSTEP_API TransformCall {
  /// As for a TransformFunction, with the parameter's sizes. The function replaces the elements in place.
  torch::Tensor values;
  const jit::OptionValues& options;  // of the parameter's group
  std::int64_t counted = 1;          // steps that the host has counted, with this one
  torch::Tensor skipped;             // how many of them the device skipped: one int64; undefined: 0
  /// The rule's matrices of state, by the names in its file, without those that this parameter has not. float32, or
  /// float64 for a float64 parameter, on its device. Assign a new tensor of the same sizes to change a matrix. All
  /// transforms of a step see it, and the state gets its values when the step has succeeded.
  std::map<std::string, torch::Tensor>& matrices;

  /// A matrix of state, or an undefined tensor if this parameter has none of this name.
  torch::Tensor matrix(const std::string& name) const;
  /// The number of this step of the parameter, from 1. In a skipped step it is the number that the step would have.
  /// Waits for the device if `skipped` is defined, so that a CUDA graph cannot capture it.
  std::int64_t step() const;
};
/// A host transform that replaces the elements of `call.values` in place. Otherwise as a TransformFunction.
using ParameterTransform = std::function<void(const TransformCall& call)>;

/// Like register_host_transform(), for a function that needs the step number of the parameter, or matrices of state. It
/// is not called in a skipped step if the rule has such matrices.
JITSTEP_API void register_parameter_transform(const std::string& name, ParameterTransform function);

/// Counts of kernels in this process: compiled, found on disk, and requested again. Other threads may be compiling.
JITSTEP_API jit::Statistics kernel_statistics();

/// A c10::Error, as torch's own errors are. It nests the jit::Error that caused it: std::rethrow_if_nested(error)
/// throws that one. Causes are missing compilers, wrong arguments and the like. Two errors are not c10::Errors:
/// CompileError, if the source of a kernel does not compile, and CudaError, if a call of the CUDA driver fails.
class JITSTEP_API EngineError : public c10::Error, public std::nested_exception {
 public:
  /// Construct it only inside the handler that caught `cause`.
  EngineError(c10::SourceLocation where, const jit::Error& cause) : Error(where, cause.what()) {}
};

}  // namespace jitstep
