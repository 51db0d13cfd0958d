// Sums of the gradients of many micro-batches, in 16 bits without standing still.
#pragma once

#include <torch/arg.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "jitstep/jit/export.h"

namespace jitstep {

/// How a sum becomes a bfloat16. To nearest it stands still as soon as what is added is less than half its last place.
enum class Rounding { stochastic, nearest };

/// What a GradAccumulator keeps.
struct JITSTEP_API GradAccumulatorOptions {
  /// Of the sums: bfloat16 or float32. Those of float64 parameters are float64.
  TORCH_ARG(torch::Dtype, dtype) = torch::kBFloat16;
  TORCH_ARG(Rounding, rounding) = Rounding::stochastic;  // of bfloat16; others go to nearest
  TORCH_ARG(std::uint64_t, seed) = 0;  // of the random bits; the same one in all replicas
  /// Of gradients that wait for the end of a backward(), 256 MiB; more are added before it, by launches of their own.
  /// 0: each when it comes, the least memory and the most launches.
  TORCH_ARG(std::int64_t, max_waiting_bytes) = std::int64_t{1} << 28;
  TORCH_ARG(bool, mean) = false;  // assign_gradients() divides by the number of micro-batches
};

/// Takes the gradients of every backward() out of the parameters and adds them up in buffers of its own, until a step
/// is due (torchastic's StochasticAccumulator):
///
///   jitstep::GradAccumulator sums(model->parameters());
///   for (...) {
///     for (const auto& [x, y] : micro_batches) loss(model->forward(x), y).backward();
///     sums.assign_gradients();
///     opt.step();
///     opt.zero_grad();
///   }
///
/// Torch's hooks say which gradients there are; when a backward() ends they are added, by one launch for all parameters
/// that share a kernel (dtype and density of buffer and gradient), and freed; those of a large model by several. An
/// addition is that of float32 (float64 of float64 parameters), rounded once; a NaN stays NaN, an infinity infinite.
/// Stochastic rounding takes Philox bits of seed, parameter, element and micro-batch, counted for as long as this
/// lives: the same bits on every device and for any number of threads, and on average no error.
///
/// A step of jitstep reads a gradient in another dtype than its parameter, and so do torch's C++ optimizers; only
/// Python's p.grad = ... refuses it. The scaled gradients of a GradScaler are summed as they are. Errors are c10::Errors;
/// one in adding, such as of a sparse gradient, is thrown by backward() and leaves those that it was to add, and their
/// sums, as they were.
/// One thread at a time calls its functions, and backward() calls that reach its parameters. After the step take the sums
/// away by zero_grad(): torch would add the next gradient to what zero_grad_in_step() leaves of them, in their dtype.
/// What was moved from can only be destroyed.
class JITSTEP_API GradAccumulator {
 public:
  /// `parameters`: leaves of a supported dtype, which those that are listed twice are once. Hooks that they have stay
  /// and are called first; parameters of another GradAccumulator, or of an optimizer that steps in backward, are
  /// refused.
  explicit GradAccumulator(const std::vector<torch::Tensor>& parameters,
                           const GradAccumulatorOptions& options = {});
  /// Drops the sums; from now on gradients stay where torch leaves them.
  ~GradAccumulator();
  GradAccumulator(GradAccumulator&&) noexcept;
  GradAccumulator& operator=(GradAccumulator&&) noexcept;

  /// The sums become the parameters' gradients, in their own dtype, and new ones begin. A parameter that got no
  /// gradient keeps what it has, as a rule none.
  void assign_gradients();

  /// Drops the sums, and the gradients that a backward() which failed has left, such as of micro-batches that went wrong.
  void reset();

  /// How many the sums are of: backward() calls that brought some gradient. Those inside of another one, as
  /// checkpointing makes them, are part of it, unless they end in another thread, as on several devices.
  std::int64_t micro_batches() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace jitstep
