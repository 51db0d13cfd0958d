// Steps on the CPU of parameters that are on a GPU, through copies in host memory.
#pragma once

#include <c10/core/Event.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/types.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "optim/optimizer/grad_hooks.h"
#include "optim/optimizer/optimizer_impl.h"
#include "optim/reports/memory_measure.h"
#include "optim/tensor/pinned_memory.h"
#include "optim/tensor/tensor_fingerprint.h"

namespace jitstep {

/// The tensors in host memory that steps use in place of a parameter on a GPU.
struct HostCopy {
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  explicit HostCopy(const torch::Tensor& p) : owner(p.getIntrusivePtr()) {}

  // The parameter. Until the copy is gone, no other tensor gets its address, which is the key of the copy. Weak, so
  // that the GPU's memory is freed with the parameter.
  Weak owner;
  torch::Tensor parameter = {};  // with the parameter's sizes and strides
  torch::Tensor gradient = {};   // in the parameter's storage order; undefined: there was none yet
  torch::Tensor addend = {};     // the next gradient of the same step, while it is copied
  std::vector<torch::Tensor> inputs = {};

  TensorFingerprint fingerprint = {};  // of the parameter when the copy was equal to it
  std::int64_t write_count = -1;       // torch's version number of the parameter at that time
  bool has_gradient = false;           // backward() has copied a gradient
  bool has_addend = false;             // and `addend`, which is not added yet
  c10::Event copied{c10::kCUDA};       // the last copy in backward() has ended
};

/// Belongs to one Impl. backward() may use several threads. Everything else is for one thread at a time.
class Optimizer::Impl::Offload {
 public:
  explicit Offload(Impl& impl) : impl_(impl) {}
  ~Offload();
  Offload(const Offload&) = delete;
  Offload& operator=(const Offload&) = delete;

  bool in_backward() const { return hooks_.has_value(); }
  /// Copies gradients in backward(), or no longer. Throws a c10::Error, before anything changes, if another object has
  /// a parameter's hooks.
  void copy_in_backward(bool on);
  /// Registers hooks again, after the parameters changed.
  void update_hooks() {
    if (in_backward()) copy_in_backward(true);
  }
  /// Throws the c10::Error that update_hooks() would throw after these parameters were added.
  void check_hooks(const std::vector<torch::Tensor>& added) const;
  /// Frees the copies of parameters that are in no group any more. Waits for transfers, because others use the memory.
  void drop_removed();

  /// Makes or updates the copies of all parameters on GPUs. Waits for them.
  void refresh();
  /// Makes the next step copy all parameters again.
  void invalidate_copies();
  /// What the optimizer steps for a parameter: its copy, or itself if it is on the CPU.
  const torch::Tensor& stepped(void* key, const torch::Tensor& p) const;

  /// The sum of the gradients that backward() has copied. Null if there is none.
  const torch::Tensor* gradient(ParamRecord& record);
  /// Replaces the tensors of this step by copies in host memory. Waits for them. Throws, before anything changes, for a
  /// step that cannot run on the CPU.
  void fetch();
  /// Additional inputs of the step that fetch() has prepared, in host memory.
  StepExtras extras() const;
  /// Writes the new values of this step's parameters to their GPUs, on the current streams. Does not wait.
  void send();
  /// The same for all parameters.
  void send_all();
  /// Drops the gradients that backward() has copied.
  void drop_gradients();

  /// Adds the copies of a parameter to a report.
  void measure(void* key, MemoryMeasure& report, MemoryMeasure::Entries& entries) const;

 private:
  template <class Visit>
  void for_each_on_gpu(Visit visit);
  HostCopy& copy_of(ParamRecord& record, const torch::Tensor& p);
  void release(HostCopy& copy);
  void drop_moved(const ParamRecord& record);
  static void check_copied_gradient(const HostCopy& copy, const torch::Tensor& p,
                                    const ParameterName& name);
  void make_buffer(torch::Tensor& buffer, const torch::Tensor& p, torch::ScalarType dtype);
  bool is_current(const HostCopy& copy, const torch::Tensor& p) const;
  void mark_current(HostCopy& copy, const torch::Tensor& p) const;
  void start_download(HostCopy& copy, const torch::Tensor& p);
  void fetch(ParamRecord& record);
  void fetch_gradient(ParamRecord& record, HostCopy& copy);
  void fetch_inputs(ParamRecord& record, HostCopy& copy) const;
  void fetch_numbers();
  void find_infinities() const;
  static void check_not_capturing(const torch::Device& device);
  void check_step() const;
  void await_uploads() const;
  void await_downloads();
  void send(HostCopy& copy, const torch::Tensor& p);
  void check_free(const std::vector<torch::Tensor>& parameters) const;
  void on_gradient(const ParameterName& name);
  void start_copy(HostCopy& copy, const torch::Tensor& g, const torch::Tensor& to);
  void add_up(HostCopy& copy);

  Impl& impl_;
  PinnedMemory memory_;
  std::unordered_map<void*, HostCopy> copies_;  // by parameter
  std::vector<torch::Tensor> lrs_ = {};         // by group, as Impl::lrs
  torch::Tensor grad_scale_ = {}, found_inf_ = {};
  std::unordered_set<c10::Stream> downloading_ = {};             // with copies to the host
  std::unordered_map<torch::Device, c10::Event> sent_ = {};      // the last copies to the GPU
  std::unordered_map<torch::Device, c10::Stream> streams_ = {};  // of copies in backward()
  std::mutex mutex_;                                             // of copies in backward()
  std::optional<GradHooks> hooks_ = {};                          // while in_backward()
  std::unordered_set<void*> hooked_ = {};                        // parameters of these hooks
};

template <class Visit>
void Optimizer::Impl::Offload::for_each_on_gpu(Visit visit) {
  for (std::size_t g = 0; g < impl_.groups.size(); ++g)
    for (ParamRecord& record : impl_.groups[g].param_records) {
      const torch::Tensor& p = impl_.param_groups()[g].params()[record.name.index];
      if (!record.repeated && p.is_cuda()) visit(record, p);
    }
}

}  // namespace jitstep
