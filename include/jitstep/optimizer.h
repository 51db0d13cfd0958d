// The optimizer: torch's parameter groups, options and state on one side, the stepper on the other.
// Start here. Knows no rule; the class of each shipped rule is generated into rules.h.
#pragma once

#include <torch/optim/optimizer.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/options.h"
#include "jitstep/param_state.h"

namespace jitstep {

enum class NonTrainablePolicy;
struct KernelReport;
struct MemoryReport;
namespace jit {
enum class Mode;
}

/// How one parameter is kept: what the formats that were asked for come to for its dtype and size.
struct ParameterFormats {
  /// By the slot's name ("m"); slots left out are not listed. "fp32" is as wide as the arithmetic:
  /// float64 for a float64 parameter.
  std::map<std::string, jit::CodecChoice> slots;
  std::string weights;  // "native", "stochastic", ...
};

/// An optimizer of any rule. One thread at a time uses it; distinct ones may step concurrently.
/// Arguments are checked when it is made, when groups are added and when a step finds new ones:
/// always before a parameter or its state changes. Wrong arguments are c10::Errors, as torch's.
class JITSTEP_API Optimizer : public torch::optim::Optimizer {
 public:
  /// As torch's optimizers call it.
  using ParamGroup = torch::optim::OptimizerParamGroup;

  /// Any rule by name, a user's own from load_rule included.
  Optimizer(const std::string& rule, std::vector<torch::Tensor> params,
            const GenericOptions& defaults = {});
  Optimizer(const std::string& rule, const std::vector<ParamGroup>& groups,
            const GenericOptions& defaults = {});
  /// Of several rules in one optimizer, such as muon_groups gives: the options of each group name its rule, as
  /// AdamWOptions do, and make_options(); what they leave open has the rule's default. max_grad_norm is by the norm of
  /// all gradients, whatever their rule. Rules with modes, or with memory of all parameters, are refused: they need
  /// optimizers of their own.
  explicit Optimizer(const std::vector<ParamGroup>& groups);
  /// What was moved from can only be destroyed.
  Optimizer(Optimizer&&);
  ~Optimizer() override;

  /// From text such as {"rule": "adamw", "options": {"lr": 1e-3}, "state": "int8"}. What is unknown
  /// or of the wrong type is a c10::Error that names it and lists what there is.
  static std::unique_ptr<Optimizer> from_spec(std::vector<torch::Tensor> params,
                                              const std::string& json_text);

  /// One step of every parameter that has a gradient; the closure's result, if there is one. If it
  /// throws, parameters and state are what they were, unless a GPU failed in the midst of its
  /// launches, of which some may have been done (a CudaError).
  ///
  /// With the option tune(true), or JITSTEP_TUNE=1, steps try other configurations of their kernels, one in a
  /// step, until it is known which is fastest; steps to come, of later runs too, take that one. The bits are those
  /// of any other run. Steps that compile a configuration take longer.
  torch::Tensor step(LossClosure closure = nullptr) override;

  /// The numbers by which processes that train together choose: each calls `agree` at the same step, with one number
  /// for each configuration that was tried, and all go on with what it returns, which must be the same everywhere, such as
  /// the numbers of rank 0 or the largest of all. Without it an optimizer does not tune where WORLD_SIZE is above 1.
  using TuningAgreement = std::function<std::vector<double>(const std::vector<double>&)>;
  void set_tuning_agreement(TuningAgreement agree);

  /// For rules with modes, such as schedule-free ones, which keep another point in the parameters while
  /// they train than the one to be evaluated and saved with the model; other rules take no notice, so that
  /// any program may call them. An optimizer begins in training. eval() turns the parameters that have taken
  /// a step to the point to be evaluated, where step() is a c10::Error; train() turns them back. Doing either
  /// twice is doing it once. If one throws, parameters and state are what they were, as with step(). The
  /// mode is part of an archive: parameters that are saved in evaluation belong to one in evaluation.
  void eval();
  void train(bool on = true);
  /// Whether the parameters hold the point that training goes on from; always for other rules.
  bool is_training() const;

  // ---- what a step is given beside gradients. None of it is saved.

  /// As torch.amp.GradScaler sets the attributes of these names around a step (grad_scaler.h does it): every
  /// gradient is divided by `scale` where it is read and stays as it is in memory; a step does nothing but what
  /// zero_grad_in_step() asks for, and is not counted, if `found` is not 0. One float32 each, on the device of the
  /// parameters, read by the steps to come, without waiting for them. An undefined tensor: not used. With the
  /// option grad_scale, both divide.
  void set_grad_scale(torch::Tensor scale);
  void set_found_inf(torch::Tensor found);
  const torch::Tensor& grad_scale() const;
  const torch::Tensor& found_inf() const;

  /// A learning rate in a tensor, of one group or of all there are, in place of the option: one float32 or float64 on the
  /// device of the parameters, read by every step to come without waiting for it, so that device code and CUDA graphs
  /// may change it. Schedulers go on setting the option, which counts again after an undefined tensor. Nobody checks its
  /// value.
  void set_lr(const torch::Tensor& lr);
  void set_lr(std::size_t group, torch::Tensor lr);

  /// Whether the device counts the steps, as torch's `capturable`: then step() may take part in a CUDA graph capture, and
  /// each replay is a step. Before the capture take one outside, of the same parameters; what is captured is like that
  /// one, but for gradients that lie elsewhere. Options are captured as they are, a set_lr() tensor, grad_scale and found_inf
  /// are read anew. Step numbers and checkpoints are the device's, and wait for it. Replays and other steps are to be
  /// ordered by the program, as all work on several streams. Graphs step the current state: capture again after load(),
  /// or when formats, groups or state were changed. What else a capture cannot repeat is an Error, before any change.
  void capturable(bool on = true);
  bool is_capturable() const;

  /// Whether a step leaves zeros in the gradients that it has read, also one that found_inf skips: zero_grad()
  /// without a pass of its own. A gradient that shares memory with whatever else a step uses, or with itself, is
  /// a c10::Error then.
  void zero_grad_in_step(bool on = true);

  /// From now on each parameter is stepped as soon as a backward() has its gradient, which is then freed, so that
  /// few gradients are there at a time; the bits are those of step(). Every backward() is a step of the parameters
  /// that it reaches; step() is left those with a gradient from elsewhere, as a rule none. One launch for each
  /// parameter, and per pass of its rule. Hooks that parameters have are called first.
  /// A c10::Error for what is known only when the last gradient is there: max_grad_norm and every other sum
  /// over all parameters, memory of all, found_inf (a GradScaler refuses the optimizer). If a parameter's step throws,
  /// backward() does; that one keeps its gradient, others may have been stepped. What reads a parameter outside of
  /// autograd, as detach() lets it, fails in backward() as after any change in place.
  void step_in_backward(bool on = true);
  bool steps_in_backward() const;

  /// As torch's; what the group's options do not set is taken from the defaults. Note: called
  /// through a torch::optim::Optimizer&, torch itself drops the group's options. Parameters go to the first
  /// group, whatever rules there are. If either throws, the groups are what they were.
  void add_param_group(const ParamGroup& group);
  void add_parameters(const std::vector<torch::Tensor>& parameters);

  /// Compiles the kernels of all parameters, so that the first step does not have to: for the gradients that
  /// there are, and elsewhere for ones like the parameters. Creates no state.
  void compile();

  /// The kernels of the last step, those of steps inside of a backward() included, each with the parameters that share
  /// it: kernel_report.h. Before the first step those that compile() makes.
  std::vector<KernelReport> kernels();

  /// How a parameter of one of the groups is kept under its group's options. Small and float64
  /// parameters keep their state in fp32 whatever codec was chosen, and weights are native in a
  /// dtype that the chosen format is not for.
  ParameterFormats formats_of(const torch::Tensor& parameter) const;

  /// The weights as the rules see them, in the order of the parameters, float32 and of their shapes: where a weight
  /// format keeps something beside the parameter, more than the parameter shows. New tensors; a model in evaluation
  /// mode (eval()) gives the point that it evaluates, with what it keeps of the one it trains.
  std::vector<torch::Tensor> fp32_weights() const;

  /// Bytes of the state of all parameters that have one.
  std::int64_t state_bytes() const;
  /// What parameters, gradients and state take, by format and by parameter: memory_report.h. Waits for no device.
  MemoryReport memory_report() const;
  /// What the rule keeps once for all parameters (its Memory of domain `all`, such as Prodigy's `d`), by
  /// name; before the first step what it begins with. A c10::Error if there is none of that name.
  double aux_state(const std::string& name) const;
  /// Sets it; the next step goes on from there. A c10::Error for what is not finite.
  void set_aux_state(const std::string& name, double value);
  /// The rule's name; of several rules, that of the group that the optimizer was made with first.
  const std::string& rule() const;

  void save(torch::serialize::OutputArchive& archive) const override;
  /// Takes numbers and state from the archive and keeps its own formats: state in other codecs is
  /// converted, and one warning names them. Also loads what torch's optimizer of the same name saved.
  /// The archive's groups must have the same rules, in the same order, and as many parameters. If it
  /// throws, nothing has changed.
  void load(torch::serialize::InputArchive& archive) override;
  /// What torch::save and torch::load do with a file. A file is replaced when the new one is whole; a c10::Error
  /// names the file that cannot be written, is not there, or is damaged.
  void save(const std::string& file) const;
  void load(const std::string& file);

 protected:
  /// For the generated classes: as torch's do, they take parameters that are never trained.
  Optimizer(const std::vector<ParamGroup>& groups, std::unique_ptr<Options> defaults);

 private:
  struct Impl;

  Optimizer(const std::vector<ParamGroup>& groups, std::unique_ptr<Options> defaults,
            NonTrainablePolicy frozen);

  std::unique_ptr<Impl> impl_;
};

}  // namespace jitstep
