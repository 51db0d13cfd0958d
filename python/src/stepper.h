// The steps of all parameters of one optimizer: tables, and what must be unchanged to use them again.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exchange.h"
#include "group.h"
#include "jit/search/step_tuner.h"
#include "jit/step/shared_memory.h"
#include "jitstep/jit/state_storage.h"
#include "jitstep/jit/step.h"
#include "plan.h"
#include "state_watch.h"

namespace jitstep::python {

/// A kernel that the steps use.
struct KernelInfo {
  std::string name, target, key, config, reason;
  bool from_cache;
  double compile_ms;
  std::vector<int> parameters;  // numbers in the optimizer
};

/// One thread at a time may use it. It holds references to parameters, gradients' owners and state. Calls inside of a step,
/// such as those of a host transform, throw an Error if they would change it.
class Stepper {
 public:
  Stepper() = default;
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;
  /// Waits for replays that read the tables of captured graphs.
  ~Stepper();

  /// Result of step(). rebuild: something has changed; call begin(), add() and finish(), and then step() again.
  enum class Result { done, rebuild, skipped };

  /// Tunes the kernels in the following steps, or not. `agree`: makes processes that train together choose the same
  /// configurations; a function from numbers to numbers, or None. Without a call, the setting JITSTEP_TUNE decides.
  void tune(bool on, nb::object agree);
  /// The configurations that were tried, and all candidates. Zeros if nothing is tuned.
  std::pair<std::size_t, std::size_t> tuning_progress() const;
  /// Records the time of the last step, if it was a trial. Calls `agree`, which may throw: call it when the step is
  /// complete.
  void finish_trial();

  /// Drops all parameters. The groups stay in use.
  void begin(std::vector<Group*> groups, nb::list owners);
  /// Adds the next parameter of the groups, with its buffers. `p`: the object in the groups, whose local tensor the
  /// buffers name if it is a DTensor. `step`: the tensor that counts its steps. `counter`: None, or one int64 on the
  /// parameter's device with 1 - step. Then the device counts the steps there, and the caller counts them in `step`.
  /// All parameters must have one, or none. `gradient`: a tensor with the form of its gradients. `state`: its dict,
  /// whose entries must stay the same objects. Entries of auxiliary state become views of the buffer that a step has
  /// written.
  void add(nb::object p, int group, const ParamPlan& plan, const Buffers& buffers,
           const nb::object& step, const nb::object& counter, nb::handle gradient,
           const nb::object& state);
  /// Adds the next parameter, which has neither a gradient nor state.
  void add_inactive(nb::object p);
  /// Makes kernels and tables. `state`: the optimizer's dict. `scaled`: gradients are divided by a grad_scale.
  void finish(const nb::dict& state, bool scaled);

  /// Takes a step of all parameters with a gradient, on all devices. `found_inf`: a step with a value other than 0 is
  /// skipped. The host waits for the value, unless the device counts steps. `transform`: None for rules without host
  /// transforms. Else it is called per device, with the transform's number and a list of (group, values, step number,
  /// parameter). `given`: {parameter: {input number: tensor}}, in element order and in the dtype of the arithmetic.
  Result step(const nb::list& param_groups, const nb::dict& state, nb::handle grad_scale,
              nb::handle found_inf, nb::handle transform, const nb::dict& given);
  /// Switches all parameters that have taken a step to the training or evaluation point.
  void switch_mode(bool train);

  /// The parameters of the last step.
  nb::list stepped() const { return stepped_; }
  /// Shared state after the last step, empty without any; and its replacement.
  std::vector<double> shared_state() const;
  void set_shared_state(const std::vector<double>& values);
  /// The next step starts from initial values, unless set_shared_state() has given others since the last step.
  void restart_shared_state();
  std::vector<KernelInfo> kernels() const;
  /// The kernels that finish() has made or found.
  bool is_ready() const { return ready_; }
  void drop() {
    ready_ = false;
    ++drops_;
  }
  /// True if the parameters of finish() have counters.
  bool counts_on_device() const { return device_counts_; }

  /// For Python's garbage collector.
  int traverse(visitproc visit, void* arg) const;
  void release();

 private:
  // What a step needs to make tables for a parameter.
  struct Described {
    ParamPlan plan;
    jit::StepTensor tensor;  // moves into a batch
    jit::Dtype p_dtype{}, g_dtype{};
  };
  // The forms of a parameter and of its gradients. Many parameters have the same ones.
  struct Forms {
    Form p, g;
    bool operator==(const Forms&) const = default;
  };
  // Each step reads all of it but `newest` and `described`, for every parameter: it is small, and has no copies.
  struct Member {
    nb::object p;
    const Forms* forms = nullptr;
    char* data = nullptr;           // of p, in the last step
    std::uintptr_t state_bits = 0;  // set in the addresses that vector loads need aligned
    std::size_t g_bytes = 0;        // from the first to the last element of the gradient
    StepNumber count;
    int64* counter = nullptr;  // on the device, if that counts the steps
    int group = 0;
    std::uint32_t device = 0, batch = 0, index = 0;  // index: among the tensors of all batches
    bool inactive = true;                            // in the last step
    bool sharded = false;  // a DTensor: its local tensor and that of its gradient are stepped
    // The buffer of auxiliary state that the last step wrote. -1: there is none.
    std::int8_t newest_half = -1;
    std::vector<NewestView> newest = {};
    std::unique_ptr<Described> described = {};  // null: not in the tables

    void prefetch() const;
    // Reads where the parameter lies. False if it has another form.
    bool read_data();
  };
  // A float that kernels read on their device.
  struct DeviceNumber {
    nb::object copy = {};  // of a tensor on another device
    const float* address = nullptr;

    void read(nb::handle tensor, const Device& device);
  };
  // The tables of one device.
  struct DeviceStep {
    Device device;
    jit::Backend* backend;
    std::vector<jit::Batch> batches = {};
    std::optional<jit::Step> step = {};
    std::vector<std::size_t> member_of = {};  // by input
    std::vector<jit::StepInput> inputs = {};  // in the order of batches
    std::vector<HyperParams> hyper_params = {};
    std::vector<std::vector<int>> hyper_of_group = {};
    DeviceNumber grad_scale = {}, found_inf = {};

    int hyper_index(int group, std::int64_t t, const HyperParams& of_group);
    int counted_hyper_index(int64* counter, const Group& group);
    // Forgets hyperparameters.
    void start(std::size_t groups);
    bool is_active() const { return !hyper_params.empty(); }
  };
  void clear();
  bool read_groups(const nb::list& param_groups);
  void read_numbers(nb::handle grad_scale, nb::handle found_inf);
  bool read_members(const nb::list& param_groups);
  bool read_member(Member& member, PyObject* p);
  void set_inactive(Member& member);
  const Forms* shared_forms(Forms forms);
  void watch_buffers(Member& member, const ParamPlan& plan, const Buffers& buffers,
                     const nb::object& state);
  int hyper_index(const Member& member, std::int64_t t);
  void read_given(const nb::dict& given);
  std::uint32_t device_of(const Described& described);
  void make_batches();
  std::uint32_t batch_of(const Described& described, DeviceStep& device) const;
  void number_tensors();
  template <class Visit>
  void for_each_tensor(const Visit& visit) const;
  void check_disjoint();
  bool is_gradient_in_parameter(const Member& member, const void* g) const;
  bool are_gradients_in_parameters() const;
  void check_gradients() const;
  void check_grad_scale() const;
  void check_idle() const;
  void check_devices() const;
  void make_shared_state(const DeviceStep& device);
  void make_steps();
  bool move_parameters();
  void retire();
  void wait_for_replays() const noexcept;
  bool leave_graphs();
  void run(nb::handle transform);
  jit::Step* tuned_step();
  void activate(jit::Step* tuned);
  void call_transform(nb::handle transform, int number, const DeviceStep& device,
                      const std::vector<jit::TransformedTensor>& tensors);
  void count_steps();

  std::vector<Group*> groups_;
  std::vector<int> revisions_;  // of the groups, in the tables
  nb::list owners_;  // of the groups
  std::vector<std::unique_ptr<const Forms>> forms_;
  std::vector<Member> members_;
  std::vector<DeviceStep> devices_;
  std::vector<std::pair<Device, jit::Step>> captured_;  // their graphs read their tables
  std::unique_ptr<jit::SharedState> shared_state_;
  Device shared_device_;          // of shared_state_
  std::vector<double> restored_;  // shared state for the next shared_state_, or empty
  StateWatch watch_;
  nb::list stepped_;
  bool ready_ = false, scaled_ = false;
  int drops_ = 0;  // calls of drop()
  bool device_counts_ = false;
  bool running_ = false;       // make_steps(), run() or switch_mode() has begun
  bool is_bound_now_ = false;            // no step has used the tables of finish() yet
  bool moved_ = false;                   // a parameter has other memory than the tables
  jit::AddressRanges parameter_ranges_;  // of the tables
  bool check_gradients_ = false;         // one may lie in the memory of a parameter
  bool activated_ = false;               // a parameter is stepped that was not in the last step
  bool other_stepped_ = true;            // stepped_ is not that of the last step

  nb::object agree_ = {};                  // of tune(), or null. Held here for the garbage collector
  std::shared_ptr<jit::StepTuner> tuner_;  // null: steps are not tuned
  bool tuning_is_settled_ = false;         // tuner_ is made, if one is needed
  std::optional<double> trial_seconds_;    // of a trial that finish_trial() records
  bool tables_are_new_ = false;            // to the tuner
  jit::Step* last_tuned_ = nullptr;        // the last step's; null: the default step
};

}  // namespace jitstep::python
