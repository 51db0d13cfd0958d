// Start here. The optimizer connects torch's parameter groups, options and state with jitstep's kernels. This class
// works for every rule. jitstep generates one class per built-in rule into rules.h.
#pragma once

#include <torch/arg.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/options.h"
#include "jitstep/param_state.h"

namespace c10d {
class ProcessGroup;
}

namespace jitstep {

enum class NonTrainablePolicy;
class GradScaler;
struct KernelReport;
struct MemoryReport;
struct ShardOptions;
namespace jit {
enum class Mode;
}

/// The formats of one parameter, after jitstep has applied its dtype and size to the requested formats.
struct ParameterFormats {
  /// By the slot's name ("m"). Slots that the rule does not store under its flags are absent. "fp32" means the dtype of
  /// the arithmetic, which is float64 for a float64 parameter.
  std::map<std::string, jit::CodecChoice> slots;
  std::string weights;  // "native", "stochastic", ...
};

/// Options of Optimizer::offload().
struct JITSTEP_API OffloadOptions {
  /// backward() copies each gradient to host memory while it computes others, and frees it on the GPU. The gradients of
  /// several backward() calls before a step are added on the CPU, in the order and dtype in which torch adds them to
  /// p.grad(). Otherwise step() copies p.grad(), which stays as it is.
  TORCH_ARG(bool, in_backward) = false;
};

/// An optimizer of any rule. Only one thread at a time may use it. Different optimizers may step concurrently.
/// Arguments are checked in the constructor, when a group is added, and in the first step after a change, always before
/// a parameter or its state changes. Wrong arguments throw c10::Error, as in torch.
class JITSTEP_API Optimizer : public torch::optim::Optimizer {
 public:
  /// The name that torch's optimizers use.
  using ParamGroup = torch::optim::OptimizerParamGroup;

  /// Any rule by name, including rules from load_rule().
  Optimizer(const std::string& rule, std::vector<torch::Tensor> params,
            const GenericOptions& defaults = {});
  Optimizer(const std::string& rule, const std::vector<ParamGroup>& groups,
            const GenericOptions& defaults = {});
  /// Several rules in one optimizer, for example from muon_groups(). The options of each group select its rule: use a
  /// typed class such as AdamWOptions, or make_options(). Options that are not set have the rule's default.
  /// max_grad_norm uses the norm of all gradients, of all rules. Throws a c10::Error for rules with modes or shared
  /// state, which need an optimizer of their own.
  explicit Optimizer(const std::vector<ParamGroup>& groups);
  /// A moved-from optimizer has its defaults, and no parameters: step() and zero_grad() do nothing. It can get groups,
  /// and be destroyed or assigned to.
  Optimizer(Optimizer&&);
  /// References to this optimizer, such as a scheduler's, then refer to the new one. A scheduler keeps the base rates
  /// of the old one.
  Optimizer& operator=(Optimizer&&);
  ~Optimizer() override;

  /// Makes an optimizer from JSON such as {"rule": "adamw", "options": {"lr": 1e-3}, "state": "int8"}. An unknown name
  /// or a wrong type throws a c10::Error that names it and lists the known ones.
  static std::unique_ptr<Optimizer> from_spec(std::vector<torch::Tensor> params,
                                              const std::string& json_text);

  /// Steps every parameter that has a gradient. Returns the closure's result, or an undefined tensor without a closure.
  /// If it throws, parameters and state are unchanged, unless the error is a CudaError or that of a tuning agreement.
  ///
  /// With the option tune(true), or with JITSTEP_TUNE=1, steps also tune the kernels. Each step runs one other launch
  /// configuration, until the fastest is known. Later steps use it, also in later runs. Results are bit-identical.
  /// Steps that compile a configuration take longer.
  torch::Tensor step(LossClosure closure = nullptr) override;

  /// Makes processes that train together choose the same configurations. All call `agree` after the same step, with one
  /// number per configuration: smaller is faster, 1e9 cannot run in this process. It must return the same numbers in
  /// every process, such as the maximum of all. If it throws, step() throws after the parameters have changed. A process
  /// that cannot run the chosen configuration uses its default. Without `agree`, WORLD_SIZE above 1 disables tuning.
  using TuningAgreement = std::function<std::vector<double>(const std::vector<double>&)>;
  void set_tuning_agreement(TuningAgreement agree);

  /// Switches the mode of rules that train at one point and evaluate at another, such as schedule-free ones. For other
  /// rules both functions do nothing. An optimizer starts in training mode. eval() moves all parameters that have taken
  /// a step to the evaluation point, which is the one to save with the model. step() throws a c10::Error in this mode.
  /// train() moves them back. A second call of either has no effect. If a call throws, parameters and state are
  /// unchanged, as with step(). Checkpoints include the mode: load parameters that were saved in evaluation mode into
  /// an optimizer in that mode.
  void eval();
  void train(bool on = true);
  /// True if the parameters are at the training point. Always true for rules without modes.
  bool is_training() const;

  // ---- inputs of a step in addition to gradients. Checkpoints do not include them.

  /// The tensors that torch.amp.GradScaler passes to an optimizer. grad_scaler.h sets them around a step. A step
  /// divides every gradient by `scale` when it reads it. Gradients in memory stay unchanged. If `found` is not 0, the
  /// step is skipped and not counted, but zero_grad_in_step() still clears gradients. Each is one float32 on the device
  /// of the parameters. Every later step reads them on the device, without synchronization. An undefined tensor
  /// disables the input. With the option grad_scale, gradients are divided by both.
  void set_grad_scale(torch::Tensor scale);
  void set_found_inf(torch::Tensor found);
  const torch::Tensor& grad_scale() const;
  const torch::Tensor& found_inf() const;

  /// Gives a parameter's next step an input that its rule declares in addition to the gradient, such as Sophia's
  /// `hessian`. `value` has the parameter's shape. It is copied, on the parameter's device, in the dtype of the
  /// arithmetic. The next step in which the parameter has a gradient reads it once. A second call before that step
  /// replaces it, and an undefined tensor takes it back. jitstep does not scale, clip or negate inputs. Throws a
  /// c10::Error for a tensor that is not a parameter, an unknown name, or another shape. While an input is given, a
  /// step of a capturable() optimizer throws.
  void set_input(const torch::Tensor& parameter, const std::string& name,
                 const torch::Tensor& value);

  /// Sets the learning rate of all groups, or of one, as a tensor that replaces the option. It is one float32 or
  /// float64 on the device of the parameters. Every later step reads it on the device, without synchronization, so
  /// device code and CUDA graphs may change it. The value is not validated. Schedulers continue to set the option. Pass
  /// an undefined tensor to use the option again. If you remove or reorder groups, a tensor stays with its parameters.
  void set_lr(const torch::Tensor& lr);
  void set_lr(std::size_t group, torch::Tensor lr);

  /// Counts steps on the device, as torch's `capturable`. step() may then be part of a CUDA graph capture, and each
  /// replay is a step. Take one step with the same parameters before the capture. The captured step equals that one,
  /// except for the addresses of gradients. A replay reads the tensors of set_lr(), set_grad_scale() and
  /// set_found_inf() again. Other options keep the values of the capture. Reading step numbers and saving checkpoints
  /// wait for the device. You must order replays and other steps yourself, as for any work on several streams. A graph
  /// uses the state tensors that existed at capture: capture again after load(), and after you changed formats, groups
  /// or state. During capture, step() throws before any change if a replay could not repeat it.
  ///
  /// The optimizer owns the tables of all captured steps. capturable(false) waits for the device and frees them: do not
  /// replay earlier graphs after it.
  void capturable(bool on = true);
  bool is_capturable() const;

  /// Makes each step clear the gradients that it has read, which saves the pass of zero_grad(). Steps that found_inf
  /// skips clear them too. Throws a c10::Error in step() for a gradient that shares memory with another tensor of the
  /// step, or whose own elements overlap.
  void zero_grad_in_step(bool on = true);

  /// Steps each parameter as soon as backward() has computed its gradient, and then frees the gradient. Few gradients
  /// exist at the same time. Results are bit-identical to step(). Every backward() is a step of all parameters that it
  /// reaches. step() then only steps parameters whose gradients were set elsewhere, usually none. It takes one launch
  /// per parameter and one more for each pass of its rule. Existing hooks of the parameters run first.
  ///
  /// Throws a c10::Error for everything that needs all gradients at once: max_grad_norm and other sums over all
  /// parameters, shared state, and found_inf (GradScaler rejects the optimizer). If the step of a parameter throws,
  /// backward() throws. That parameter keeps its gradient, and others may already have been stepped. A graph that reads
  /// a parameter outside of autograd, for example by detach(), fails in backward(), as after any in-place change.
  void step_in_backward(bool on = true);
  bool steps_in_backward() const;

  // ---- state in host memory

  /// Keeps the state of parameters on GPUs in host memory, and steps them on the CPU. A step copies gradients to the
  /// host, and new parameters to the GPU. Results are bit-identical to those without offload(). Parameters on the CPU
  /// are stepped as before. Call it before the first step, or later: state that exists moves to host memory.
  ///
  /// The host also has a copy of each parameter and of each gradient. They are pinned, in blocks of torch's allocator.
  /// The next step frees the copies of parameters that have left the groups. Their state holds one until it is erased.
  /// State is not pinned, because it is never copied. State tensors, such as `exp_avg()`, and the tensors of host
  /// transforms are on the CPU. set_lr(), set_grad_scale(), set_found_inf() and set_input() take the same tensors as
  /// before.
  ///
  /// A step copies a parameter from the GPU if something else has written to it, which torch's version counter shows.
  /// Writes through `p.data()` or by other libraries do not change the counter. Call offload() again after them, with
  /// the same options. Otherwise the next step overwrites them.
  ///
  /// step() waits for the gradients. A step throws a c10::Error in a CUDA graph capture and with capturable(). Throws a
  /// c10::Error, also with shard(), and if memory cannot be pinned.
  void offload(const OffloadOptions& options = {});
  bool is_offloaded() const;
  /// True if backward() copies gradients to host memory and frees them. See OffloadOptions::in_backward().
  bool copies_in_backward() const;
  /// As in torch. Also drops the gradients that backward() has copied to host memory, which zero_grad() of a
  /// torch::optim::Optimizer& does not.
  void zero_grad(bool set_to_none = true);

  // ---- several ranks

  /// Shares the state of this optimizer among the ranks of a process group (ZeRO stage 1). Every rank keeps the state
  /// of its part of each parameter. A step reads the gradients of that part, which must be the mean of all ranks'
  /// gradients, and then exchanges the new parameters. Results are bit-identical to those of one process with these
  /// gradients, for any number of ranks, and for ranks on different devices.
  ///
  /// All ranks must call shard(), step(), eval(), train(), save(), save_parts(), load() and fp32_weights() together.
  /// Before they exchange data, ranks compare parameters, options, formats, seeds and step numbers. A difference throws
  /// a c10::Error on all ranks, and nothing has changed. If a rank fails during the exchange of parameters, the others
  /// throw after the timeout of the group, and step() then throws until load() is called.
  ///
  /// State that exists already is cut. Parameters cannot be added later. State tensors of a parameter, such as
  /// `exp_avg()`, then have the elements of the part, in one dimension and in storage order. Parameters whose formats
  /// or sums are per row or column (Adafactor, CAME) are not cut. Throws a c10::Error for parameters on several
  /// devices, with step_in_backward(), and in step() with capturable(). Include jitstep/sharding.h.
  void shard(const c10::intrusive_ptr<c10d::ProcessGroup>& group);
  /// The same with options: with own gradients, ranks also share the gradients (ZeRO stage 2). See sharding.h.
  void shard(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const ShardOptions& options);
  /// True if ranks exchange gradients, in step() or in backward(). See ShardOptions::gradients().
  bool reduces_gradients() const;
  /// True if backward() exchanges gradients among ranks and frees them. See ShardOptions::in_backward().
  bool reduces_in_backward() const;
  /// The first element of this rank's part of a parameter, and the one after the last. Elements count in storage order.
  /// Without shard() it is the whole parameter.
  std::pair<std::int64_t, std::int64_t> part_of(const torch::Tensor& parameter) const;

  /// As in torch. A group inherits options that it does not set from the defaults. Note: torch drops the group's
  /// options if you call this through a torch::optim::Optimizer&. add_parameters() adds to the first group, also in an
  /// optimizer of several rules. If a call throws, the groups are unchanged.
  void add_param_group(const ParamGroup& group);
  void add_parameters(const std::vector<torch::Tensor>& parameters);

  /// Compiles the kernels of all parameters before the first step. Uses the gradients that exist. For other parameters
  /// it assumes gradients with the parameter's dtype and layout. Creates no state.
  void compile();

  /// The kernels of the last step, including steps in backward(), each with the parameters that share it. See
  /// reports.h. Before the first step, compiles the kernels as compile() does.
  std::vector<KernelReport> kernels();

  /// The formats of a parameter under its group's options. Float64 parameters, and small ones under codecs with
  /// scales, have fp32 state. Weights are native if the selected weight format does not support the dtype.
  ParameterFormats formats_of(const torch::Tensor& parameter) const;

  /// The weights that the rules compute with, in the order of the parameters: new float32 tensors of the same shapes.
  /// They include the residual of the weight format, so they can be more precise than the parameters. In evaluation
  /// mode they are the evaluation point.
  std::vector<torch::Tensor> fp32_weights() const;

  /// Memory of parameters, gradients and state, by format and by parameter. See reports.h. Does not synchronize.
  MemoryReport memory_report() const;
  /// Shared state of the rule by name, such as Prodigy's `d`. Before the first step this is its initial value. An
  /// unknown name throws a c10::Error.
  double aux_state(const std::string& name) const;
  /// Sets the value that the next step continues from. A value that is not finite throws a c10::Error.
  void set_aux_state(const std::string& name, double value);
  /// The rule's name. With several rules, the rule of the first group at construction.
  const std::string& rule() const;

  /// With shard(), rank 0 gets the state of all ranks and writes what a single process would write. Archives of other
  /// ranks have no state, and load() refuses them. Ranks must not write their archives to the same file, as torch::save()
  /// with a file name does. Use save(file).
  void save(torch::serialize::OutputArchive& archive) const override;
  /// Loads options and state from the checkpoint. The optimizer's own formats stay: state in other codecs is converted,
  /// and one warning names these codecs. Also loads checkpoints of torch's optimizer of the same name. The checkpoint
  /// must have the same rules in the same order, with the same number of parameters. If it throws, nothing has changed.
  /// With shard(), every rank reads the checkpoint and keeps its parts. It may be of any number of ranks.
  void load(torch::serialize::InputArchive& archive) override;
  /// As torch::save and torch::load with a file name. save() writes a complete new file before it replaces the old one.
  /// A missing, damaged or unwritable file throws a c10::Error that names it. load() also takes a folder of
  /// save_parts(). Every rank then reads only what it needs, if it can.
  void save(const std::string& file) const;
  void load(const std::string& path);
  /// Writes a checkpoint as a folder, in which every rank writes a file of its own part, and rank 0 an index. All ranks
  /// must see the same folder. The folder is made if it does not exist. If it has a checkpoint, that one stays complete
  /// until the new one is, also if a rank is killed meanwhile. Its files are then removed. load() reads the folder on
  /// any number of ranks. Only one optimizer at a time may save to a folder.
  ///
  /// `parts`: without shard(), the number of files. With shard() it must be 0 or the number of ranks. Throws a
  /// c10::Error that names the file if one cannot be written; the folder's old checkpoint is unchanged then.
  void save_parts(const std::string& folder, int parts = 0) const;

 protected:
  /// For generated classes. Accepts parameters without requires_grad, as torch's optimizers do.
  Optimizer(const std::vector<ParamGroup>& groups, std::unique_ptr<Options> defaults);

 private:
  struct Impl;
  friend class GradScaler;  // reads Impl::token

  Optimizer(const std::vector<ParamGroup>& groups, std::unique_ptr<Options> defaults,
            NonTrainablePolicy policy);

  std::vector<torch::Tensor> weights_of_all() const;
  bool save_all(torch::serialize::OutputArchive& archive) const;

  std::unique_ptr<Impl> impl_;
};

}  // namespace jitstep
