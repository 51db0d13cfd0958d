// Own gradients of ranks: collects them, in backward() or in step(), and gives steps the mean of all ranks.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "optim/optimizer/backward_watch.h"
#include "optim/optimizer/grad_hooks.h"
#include "optim/optimizer/sharding.h"
#include "optim/shard/gradient_reduction.h"

namespace jitstep {

/// Belongs to one Impl with a Sharding. backward() may use several threads. Everything else is for one thread at a
/// time.
class Optimizer::Impl::Reduction {
 public:
  /// Throws a c10::Error if another object has the hooks of a parameter.
  Reduction(Sharding& sharding, const ReductionOptions& options, bool in_backward);

  bool in_backward() const { return hooks_.has_value(); }
  /// In step(), on all ranks: waits for the gradients of all ranks. Does nothing if they are there, from a step that
  /// failed later.
  void reduce();
  /// In a step that failed on this rank before ranks agreed: sends what other ranks wait for. Throws nothing.
  void join_failed_step() noexcept;
  /// After the others know of that: drops gradients, except those that a second call of step() can use.
  void end_failed_step();
  /// After a step: drops the gradients.
  void end_step();
  /// See GradientReduction.
  void find_infinities(const torch::Tensor& found) const { reduction_.find_infinities(found); }
  /// The mean of a parameter's gradient for this rank's part, [n]. Undefined if no rank has one.
  torch::Tensor gradient(const void* key) const {
    return reduction_.gradient(sharding_.index_of(key));
  }

 private:
  void on_gradient(std::size_t index);
  void on_end_of_backward();
  void drop();
  torch::Tensor checked_gradient(std::size_t index) const;
  void add(std::size_t index);
  void check_backward() const;
  void await_backward();
  void read_all();

  Sharding& sharding_;
  GradientReduction reduction_;
  bool failed_ = false;                     // in backward(): gradients are missing
  bool dropped_ = false;                    // a step has failed, and none had gradients since
  std::optional<c10::Stream> stream_ = {};  // of the last gradient
  std::shared_ptr<BackwardWatch> watch_;
  std::optional<GradHooks> hooks_ = {};
};

}  // namespace jitstep
