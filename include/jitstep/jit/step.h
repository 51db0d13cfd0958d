// A step of all tensors on one device, in a few launches for any number of tensors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "jitstep/jit/backend.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel_config.h"
#include "jitstep/jit/layout.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {

struct SharedState;

/// A parameter and its state. All addresses are in device memory.
struct JITSTEP_API StepTensor {
  void* p = nullptr;
  void* residual = nullptr;                     // of the weight format
  bool residual_is_set = false;                 // residual of earlier steps is read, even in step 1
  std::vector<SlotBuffers> slots;               // one per slot of the rule, empty if not stored
  std::vector<std::array<void*, 2>> aux_state;  // one per field of Plan::aux_state
  Shape shape;                                  // of p
  std::vector<std::int64_t> g_strides;          // in elements, in p's logical order
  int id = 0;               // index in the optimizer: selects random bits, orders sums
  std::int64_t offset = 0;  // index of element 0 in the whole tensor; a multiple of 8
  /// Elements of the whole tensor, if this is a part of it that begins at `offset`. Its sums then cover the whole
  /// tensor, and the step needs an Exchange. A part has one dimension, and may be empty. 0: sums cover these elements
  /// only. Then only kernels without sums (is_elementwise()) give the result of the whole tensor.
  std::int64_t whole = 0;
  /// The sizes of the whole tensor, if this is a part of it: `prepare` may read them. Empty: those of `shape`.
  std::vector<std::int64_t> whole_sizes = {};
  std::optional<StateLayout> layout = std::nullopt;  // of its state, if known; then it is checked
};

/// The inputs of one tensor in one step.
struct JITSTEP_API StepInput {
  const void* g = nullptr;
  int hyper_index = 0;      // index into the step's HyperParams
  bool aligned = false;     // p, g, residual, codes and inputs are aligned to 16 bytes
  void* cleared = nullptr;  // g, if the step must set it to zero, also when it is skipped
  bool inactive = false;    // excluded from this step and its sums; other fields are ignored
  /// The rule's inputs in this step: values in the dtype of the arithmetic, in element order. Null: not given.
  std::array<const void*, kMaxInputs> inputs = {};
  bool operator==(const StepInput&) const = default;
};

/// Tensors that share a kernel, and so a launch.
struct JITSTEP_API Batch {
  Plan plan;
  std::vector<StepTensor> tensors;
  std::optional<KernelConfig> config = std::nullopt;  // default: Backend::choose_config()

  /// The elements and tensors of one launch.
  WorkSize size() const;
};

/// The point that a parameter holds between steps, under a rule with modes (Manifest::modes): the training point or the
/// evaluation point.
enum class Mode { train, eval };

/// Input and result of a host transform for one tensor. `tensor` is its index among the tensors of all batches.
/// `transform` is the transform's index in Manifest::transforms of the tensor's rule.
/// `values` is device memory in the dtype of the arithmetic, in element order (storage order without gaps).
struct TransformedTensor {
  std::size_t tensor;
  void* values;
  int transform = 0;
};

/// The host transforms of rules that name some (Manifest::transforms). A step calls it once per index of a transform,
/// after the reductions that do not read the result (Plan::transform_passes), with all tensors that have elements. It
/// replaces the values of each tensor, by work that is ordered after earlier launches and before later ones.
using HostTransform = std::function<void(const std::vector<TransformedTensor>& tensors)>;

/// The partial sums of one reduction over one tensor of which a Step has a part. `sums` is device memory of
/// [count][terms] doubles. The Step has computed those of its part: a part from element `first` to `last` has the
/// partial sums from `first / elements` to `last / elements`, rounded up.
struct PartialSums {
  int id;                 // of the tensor
  double* sums;           // of the whole tensor
  std::int64_t count;     // partial sums of the whole tensor
  int terms;              // numbers per partial sum
  std::int64_t elements;  // of the tensor per partial sum
};

/// Fills in the partial sums of the other parts, from the steps that have them. A step calls it once per pass that has
/// such sums. `partials` is sorted by tensor id, then by reduction, so the order is the same in the steps of all parts.
/// Its work must come after earlier launches and before later ones. If it throws, parameters and state are unchanged.
using Exchange = std::function<void(const std::vector<PartialSums>& partials)>;

/// Kernel launches by all steps of this process so far.
JITSTEP_API std::uint64_t launch_count();

/// Kernels, tables and buffers for the steps of some batches. The back end must outlive it, and the tensors' memory
/// must be valid while steps run. Only one thread at a time may use it. A moved-from Step throws an Error when it is
/// used.
///
/// A sum over `all` is over the tensors of all batches whose kernels use it. Its result does not depend on the
/// distribution of tensors over batches, or on their order. Gradient options with such sums (clipping) are active in
/// all batches if they are active in one. Each batch uses its own numbers.
///
/// Shared state advances once per step. It uses the hyperparameters of one tensor of its rule: of those that are active
/// and have elements, the one of lowest id.
///
/// A step of parts of tensors (StepTensor::whole) needs all tensors, those without elements here as empty parts. The
/// results are those of whole tensors, bit by bit: sums add the same numbers in the same order, and random bits belong
/// to elements. Auxiliary and shared state are then the same in the steps of all parts.
class JITSTEP_API Step {
 public:
  /// Compiles or finds the kernels and fills the tables. Throws an Error, before any change, for tensors that their
  /// kernel cannot step or that share memory, for kernels that disagree about a sum, and for duplicate ids if there is
  /// a sum over `all`. `shared_state` is for rules with fields of domain `all`. All batches share it, it must outlive
  /// the step, and another Step of the same rule may continue with it.
  Step(Backend& backend, const std::vector<Batch>& batches, SharedState* shared_state = nullptr);
  ~Step();
  Step(Step&&) noexcept;
  Step& operator=(Step&&) noexcept;

  /// The number of tensors in all batches.
  std::size_t size() const;
  /// The kernel of a batch.
  const Kernel& kernel(std::size_t batch = 0) const;
  /// The configuration of a batch's kernel, and the reason for it.
  const ConfigChoice& choice(std::size_t batch = 0) const;

  /// Moves step counting to the device, for CUDA graph capture. Each tensor needs HyperParams with a step_offset of its
  /// own, and shared state needs SharedState::step_offset. Each step decrements them, so the same HyperParams replay.
  /// This adds one launch. A captured step equals the step before it, except for the addresses of gradients. Its
  /// replays read the pointers of its HyperParams again. The graph then owns this Step, which must live as long as the
  /// graph.
  void count_on_device(bool on = true);
  /// True if a graph replays its steps.
  bool is_captured() const;

  /// Sets the exchange of partial sums. Steps of parts whose kernels have sums throw an Error without it.
  void set_exchange(Exchange exchange);

  /// Prepares device memory and tables for the next step. `inputs` has one entry per tensor, batch after batch.
  /// `hyper_params` come from Plan::at_step. The set of inactive tensors may differ per step. HyperParams may hold
  /// device pointers (grad_scale, found_inf, lr). A kernel with grad_scale needs the flag `scaled`. With found_inf each
  /// tensor needs HyperParams with a step_offset of its own, and shared state needs SharedState::step_offset. Throws an
  /// Error for invalid inputs, or in a CUDA graph capture that this step is not ready for. Nothing has changed then,
  /// and the call can be repeated.
  void prepare(const std::vector<StepInput>& inputs, const std::vector<HyperParams>& hyper_params);

  /// Prepares a switch of all parameters to the mode `to` from the other mode. Each tensor needs the HyperParams of its
  /// last step. Gradients are not read. Batches of rules without modes stay unchanged.
  void prepare(Mode to, const std::vector<StepInput>& inputs,
               const std::vector<HyperParams>& hyper_params);

  /// For rules with a host transform: launches a prepared step up to the transform, and calls `transform`. Parameters
  /// and state are unchanged. If it throws, prepare() must be called again.
  void host_transform(const HostTransform& transform);

  /// Launches the prepared step or mode switch. Throws an Error if nothing is prepared, or if host_transform() must
  /// come first. If a launch fails, parameters may have changed.
  void launch();

  /// prepare(), host_transform() if `transform` is set, and launch().
  void run(const std::vector<StepInput>& inputs, const std::vector<HyperParams>& hyper_params,
           const HostTransform& transform = {});
  void run(Mode to, const std::vector<StepInput>& inputs,
           const std::vector<HyperParams>& hyper_params);

  /// Makes the current stream wait for the last launches of this Step. Call it before another Step of the same tensors
  /// is used. Not allowed in a CUDA graph capture.
  void wait_for_last_step();

 private:
  struct State;
  State& state() const;

  std::unique_ptr<State> state_;
};

}  // namespace jitstep::jit
