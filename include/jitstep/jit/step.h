// The steps of all tensors of one device: a few launches, however many tensors there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "jitstep/jit/backend.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel_config.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/shared_state.h"
#include "jitstep/jit/step_tensor.h"

namespace jitstep::jit {

/// The tensors of one launch: they share a kernel.
struct JITSTEP_API Batch {
  Plan plan;
  std::vector<StepTensor> tensors;
  std::optional<KernelConfig> config =
      std::nullopt;  // how it is run; Machine::choose_config() unless set
};

/// What a parameter holds between steps, under a rule that declares modes (Manifest::modes): the training point or
/// the evaluation point.
enum class Mode { train, eval };

/// What the elements of one tensor handed to a host transform: `tensor` is its number among those of all batches,
/// `values` lie in the machine's memory, as wide as the arithmetic and in element order (storage order without
/// gaps).
struct TransformedTensor {
  std::size_t tensor;
  void* values;
};

/// What rules with a host transform (Manifest::host_transform) have done between their sums and their `update_param`: it is given
/// all of their tensors with elements at once, and replaces the values of each, by work that comes after earlier
/// launches and before later ones.
using HostTransform = std::function<void(const std::vector<TransformedTensor>& tensors)>;

/// Launches of kernels by all steps of this process so far.
JITSTEP_API std::uint64_t launch_count();

/// Kernels, tables and buffers for the steps of some batches. The machine must outlive it; the tensors'
/// memory must live as long as steps run. Belongs to one thread at a time. One that was moved from throws
/// an Error when it is used.
///
/// A sum over `all` is a sum over the tensors of all batches whose kernels take it; what results does not
/// depend on how tensors are put into batches, or in which order. Gradient transforms of such sums
/// (clipping) are taken by all batches once one of them takes them, with their own numbers.
///
/// Memory of domain `all` advances by one in every step, with the numbers of the tensor of lowest id that
/// takes part and has elements.
class JITSTEP_API Step {
 public:
  /// Compiles or finds the kernels and fills the tables. An Error, before anything is changed, for
  /// tensors that their kernel cannot step or that share memory, kernels that do not agree about a sum, or
  /// ids that are not distinct where a sum over `all` is taken.
  /// `common`: for rules with memory of domain `all`, which all batches share; it must outlive the step
  /// and may go on to another one of the same rule.
  Step(Backend& backend, const std::vector<Batch>& batches, SharedState* shared_state = nullptr);
  ~Step();
  Step(Step&&) noexcept;
  Step& operator=(Step&&) noexcept;

  /// Tensors of all batches.
  std::size_t size() const;
  /// The kernel of a batch.
  const Kernel& kernel(std::size_t batch = 0) const;
  /// How the kernel of a batch is run, and why so.
  const ConfigChoice& choice(std::size_t batch = 0) const;

  /// Moves step counting to the device, for CUDA graph capture. Each tensor and the shared state need their own
  /// HyperParams and step-offset counter. Each step decrements the offset, so the same HyperParams replay. This adds
  /// one launch. A captured step equals the step before it, except for the addresses of gradients. Its replays read
  /// the pointers of its HyperParams again. The graph then owns this Step, which must live as long as the graph.
  void count_on_device(bool on = true);
  /// Whether a graph repeats steps of it.
  bool is_captured() const;

  /// Prepares device memory and tables for the next step. `inputs` has one entry per tensor, batch after batch.
  /// `hyper_params` come from Plan::at_step. The set of inactive tensors may differ per step. HyperParams may hold
  /// device pointers (grad_scale, found_inf, lr). A kernel with grad_scale needs the flag `scaled`. With found_inf each
  /// tensor and the shared state need their own HyperParams and step offset. Throws an Error for invalid inputs, or in
  /// a CUDA graph capture that this step is not ready for. Nothing has changed then, and the call can be repeated.
  void prepare(const std::vector<StepInput>& inputs, const std::vector<HyperParams>& hyper_params);

  /// Prepares a switch of all parameters to another mode, which they must not be in. Each tensor needs the HyperParams
  /// of its last step. Gradients are not read. Batches of rules without modes stay unchanged.
  void prepare(Mode to, const std::vector<StepInput>& inputs,
               const std::vector<HyperParams>& hyper_params);

  /// For rules with a host transform: the launches of a prepared step up to `update_param`, and the stage. Parameters and
  /// their state stay as they are; if it throws, nothing is prepared any more.
  void host_transform(const HostTransform& transform);

  /// The launches of what was prepared; an Error if nothing was, or if a stage is due. If one of them fails,
  /// parameters may have changed already.
  void launch();

  /// prepare(), stage() if one is due, and launch().
  void run(const std::vector<StepInput>& inputs, const std::vector<HyperParams>& hyper_params,
           const HostTransform& transform = {});
  void run(Mode to, const std::vector<StepInput>& inputs,
           const std::vector<HyperParams>& hyper_params);

  /// To be called before another Step of the same tensors takes over: what it does on the program's current stream
  /// then waits for the last launches of this one. Not in a CUDA graph capture.
  void activate_step();

 private:
  struct State;
  State& state() const;

  std::unique_ptr<State> state_;
};

}  // namespace jitstep::jit
