// Sums the gradients of micro-batches. bfloat16 sums are rounded stochastically, so that small gradients are not lost.
#pragma once

#include <torch/arg.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "jitstep/jit/export.h"

namespace jitstep {

/// Rounding of a bfloat16 sum. With `nearest`, an addend of less than half a unit in the last place of the sum is lost.
enum class Rounding { stochastic, nearest };

/// Options of a GradAccumulator.
struct JITSTEP_API GradAccumulatorOptions {
  /// Dtype of the sums: bfloat16 or float32. Sums of float64 parameters are always float64.
  TORCH_ARG(torch::Dtype, dtype) = torch::kBFloat16;
  TORCH_ARG(Rounding, rounding) = Rounding::stochastic;  // of bfloat16 sums; others: nearest
  TORCH_ARG(std::uint64_t, seed) = 0;  // of the random bits; use the same in all replicas
  /// Limit for gradients that wait for one launch at the end of backward(). Default: 256 MiB. Above it, jitstep adds
  /// them earlier, by additional launches. 0 adds each gradient at once, with the least memory and the most launches.
  TORCH_ARG(std::int64_t, max_waiting_bytes) = std::int64_t{1} << 28;
  TORCH_ARG(bool, mean) = false;  // assign_gradients() divides by the number of micro-batches
};

/// Moves the gradients of every backward() out of the parameters and sums them in its own buffers, until the program
/// calls assign_gradients() (as torchastic's StochasticAccumulator):
///
///   jitstep::GradAccumulator sums(model->parameters());
///   for (...) {
///     for (const auto& [x, y] : micro_batches) loss(model->forward(x), y).backward();
///     sums.assign_gradients();
///     opt.step();
///     opt.zero_grad();
///   }
///
/// torch's hooks report the gradients. At the end of a backward(), jitstep adds them and frees them. It takes one
/// launch for all parameters that share a kernel (dtype and density of sum and gradient), and several for large models.
/// Additions are computed in float32 (float64 for float64 parameters) and rounded once. NaNs and infinities propagate.
/// Stochastic rounding uses Philox bits of seed, parameter, element and micro-batch number, which counts for the
/// lifetime of this object. Results are bit-identical on every device and for any number of threads. The rounding error
/// is zero on average.
///
/// Gradients may have another dtype than their parameter, both for jitstep and for torch's C++ optimizers. Only an
/// assignment to p.grad in Python rejects them. Scaled gradients of a GradScaler are summed as they are. Errors are
/// c10::Errors. If adding fails, for example for a sparse gradient, backward() throws. The gradients of that addition
/// and their sums are then unchanged.
///
/// Only one thread at a time may call its functions, or a backward() that reaches its parameters. Call zero_grad()
/// after the step: after zero_grad_in_step(), torch would add the next gradient into the remaining zeros, in their
/// dtype. A moved-from object may only be destroyed.
class JITSTEP_API GradAccumulator {
 public:
  /// `parameters` are leaf tensors of a supported dtype. Duplicates are ignored. Existing hooks of the parameters stay
  /// and run first. Throws a c10::Error for parameters of another GradAccumulator, or of an optimizer with
  /// step_in_backward().
  explicit GradAccumulator(const std::vector<torch::Tensor>& parameters,
                           const GradAccumulatorOptions& options = {});
  /// Discards the sums. Later gradients stay in the parameters.
  ~GradAccumulator();
  GradAccumulator(GradAccumulator&&) noexcept;
  GradAccumulator& operator=(GradAccumulator&&) noexcept;

  /// Assigns the sums to the parameters' gradients, in the sums' dtype, and starts new sums. A parameter that
  /// received no gradient since the last call keeps its grad(), which is usually undefined.
  void assign_gradients();

  /// Discards the sums, and gradients that a failed backward() has left.
  void reset();

  /// The number of micro-batches in the sums: backward() calls that produced a gradient. A nested call, as in
  /// checkpointing, belongs to the outer one, unless it ends in another thread, which happens with several devices.
  std::int64_t micro_batches() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace jitstep
