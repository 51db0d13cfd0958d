#include "jitstep/grad_scaler.h"

#include <torch/serialize/archive.h>
#include <torch/types.h>

#include <limits>
#include <map>
#include <optional>
#include <unordered_map>

#include "jitstep/jit/layout.h"
#include "optim/optimizer/optimizer_impl.h"
#include "optim/state/archive_fields.h"
#include "optim/tensor/checks.h"
#include "optim/tensor/kernel_tensors.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
namespace {

// The scale is stored as float32. An infinite scale could never shrink again.
void check_scale(const char* name, double scale) {
  TORCH_CHECK(
      scale > 0 && scale <= std::numeric_limits<float>::max() && static_cast<float>(scale) > 0,
      "jitstep: GradScaler: ", name, " is ", scale, ". Set it to a finite float32 > 0.");
}

void check_options(const GradScalerOptions& options) {
  check_scale("init_scale", options.init_scale());
  TORCH_CHECK(options.growth_factor() > 1, "jitstep: GradScaler: growth_factor is ",
              options.growth_factor(), ". Set it to a number > 1.");
  TORCH_CHECK(options.backoff_factor() > 0 && options.backoff_factor() < 1,
              "jitstep: GradScaler: backoff_factor is ", options.backoff_factor(),
              ". Set it to a number in (0, 1).");
  TORCH_CHECK(options.growth_interval() > 0, "jitstep: GradScaler: growth_interval is ",
              options.growth_interval(), ". Set it to a number > 0.");
}

bool shares_no_elements(const torch::Tensor& g) {
  return g.is_non_overlapping_and_dense() || jit::is_non_overlapping(shape_of(g));
}

// An optimizer's gradients without duplicates. torch's function multiplies gradients of one dtype in place, so the
// elements of a gradient must not share memory.
struct Gradients {
  std::optional<torch::Device> device;
  std::vector<torch::Tensor> parameters;                    // with a gradient
  std::unordered_map<const void*, torch::Tensor> writable;  // by gradient: itself, or a copy
  std::map<torch::ScalarType, std::vector<torch::Tensor>> of_dtype;  // the writable ones

  void add(const torch::Tensor& p, const ParameterName& name) {
    const torch::Tensor& g = p.grad();
    if (!g.defined()) return;
    torch::Tensor own = is_lazy(g) ? materialized(g) : g;
    check_gradient(p, own, name);
    if (!device) device = g.device();
    TORCH_CHECK(g.device() == *device, "jitstep: GradScaler: the gradient of ", describe(p, name),
                " is on ", g.device(), ", but others are on ", *device,
                ". Use one optimizer per device.");
    parameters.push_back(p);
    if (!shares_no_elements(own)) own = own.clone();
    if (writable.emplace(g.unsafeGetTensorImpl(), own).second)
      of_dtype[g.scalar_type()].push_back(own);
  }

  // Replaces gradients by their copies.
  void assign() const {
    for (const torch::Tensor& p : parameters)
      if (const auto found = writable.find(p.grad().unsafeGetTensorImpl()); found != writable.end())
        p.mutable_grad() = found->second;
  }
};

// `are_reduced`: the step finds infinities in the mean of all ranks' gradients.
Gradients gradients_of(Optimizer& optimizer, bool are_reduced) {
  TORCH_CHECK(!optimizer.steps_in_backward(),
              "jitstep: GradScaler does not work with an optimizer that steps in backward(): the ",
              "step would use scaled gradients before all are known to be finite. Call ",
              "step_in_backward(false), or train in bfloat16, which needs no scaler.");
  Gradients gradients;
  for (std::size_t g = 0; g < optimizer.param_groups().size(); ++g) {
    const auto& params = optimizer.param_groups()[g].params();
    for (std::size_t i = 0; i < params.size(); ++i)
      if (are_reduced)
        gradients.device = params[i].device();
      else
        gradients.add(params[i], {g, i});
    // The step finds infinities in host memory.
    if (optimizer.copies_in_backward() && !gradients.device && !params.empty())
      gradients.device = params.front().device();
  }
  TORCH_CHECK(gradients.device,
              "jitstep: GradScaler: no parameter of the optimizer has a gradient.",
              " Call scale(loss).backward() first.");
  return gradients;
}

// The number on a device. A copy to the CPU blocks, because the CPU would read it before the GPU has written it.
torch::Tensor number_on(const torch::Device& device, const torch::Tensor& number) {
  return number.to(device, /*non_blocking=*/!device.is_cpu());
}

// Multiplies the gradients in place. Returns a float32 on their device: 1 if an element is not finite, else 0.
torch::Tensor multiply(const Gradients& gradients, const torch::Tensor& factor) {
  torch::Tensor found = torch::zeros({}, factor.options().device(*gradients.device));
  const torch::Tensor here = number_on(*gradients.device, factor);
  const c10::InferenceMode any;  // the program may have made gradients in it
  for (const auto& [dtype, tensors] : gradients.of_dtype)
    at::_amp_foreach_non_finite_check_and_unscale_(tensors, found, here);
  return found;
}

// Only checks the gradients: multiplies by 1.
torch::Tensor found_inf_in(const Gradients& gradients) {
  return multiply(gradients,
                  torch::ones({}, torch::dtype(torch::kFloat32).device(*gradients.device)));
}

// Sets the optimizer's grad_scale and found_inf for one step and restores them.
class ScopedGradScale {
 public:
  ScopedGradScale(Optimizer& optimizer, const torch::Tensor& scale, const torch::Tensor& found)
      : optimizer_(optimizer), scale_(optimizer.grad_scale()), found_(optimizer.found_inf()) {
    optimizer.set_grad_scale(scale);
    optimizer.set_found_inf(found);
  }
  ~ScopedGradScale() {
    optimizer_.set_grad_scale(scale_);
    optimizer_.set_found_inf(found_);
  }
  ScopedGradScale(const ScopedGradScale&) = delete;
  ScopedGradScale& operator=(const ScopedGradScale&) = delete;

 private:
  Optimizer& optimizer_;
  torch::Tensor scale_, found_;
};

double read_number(torch::serialize::InputArchive& archive, const std::string& key) {
  c10::IValue value;
  TORCH_CHECK(archive.try_read(key, value) && value.isDouble(),
              "jitstep: the checkpoint has no number \"", key,
              "\": it contains no GradScaler, or one that was disabled. Load the file that an "
              "enabled GradScaler was saved to.");
  return value.toDouble();
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options) {
  if (is_enabled()) check_options(options);
}

GradScaler::Progress& GradScaler::progress_of(const Optimizer& optimizer) {
  return progress_[optimizer.impl_->token];
}

void GradScaler::move_to(const torch::Device& device) {
  if (scale_.defined()) return;
  const OwnOperations own;
  scale_ = torch::full({}, options_.init_scale(), torch::dtype(torch::kFloat32).device(device));
  growth_ = torch::full({}, init_growth_, torch::dtype(torch::kInt32).device(device));
}

void GradScaler::check_scaled(const char* caller) const {
  TORCH_CHECK(scale_.defined(), "jitstep: GradScaler: ", caller,
              "() before any scale(). Call scale(loss).backward() first.");
}

torch::Tensor GradScaler::scale(const torch::Tensor& outputs) {
  if (!is_enabled()) return outputs;
  TORCH_CHECK(outputs.defined(),
              "jitstep: GradScaler: scale() of an undefined tensor. Pass the loss.");
  move_to(outputs.device());
  return outputs * number_on(outputs.device(), scale_);
}

void GradScaler::unscale_(Optimizer& optimizer) {
  if (!is_enabled()) return;
  check_scaled("unscale_");
  const OwnOperations own;
  Progress& progress = progress_of(optimizer);
  TORCH_CHECK(progress.stage == Stage::ready, "jitstep: GradScaler: unscale_() ",
              progress.stage == Stage::unscaled ? "twice" : "after step()",
              " for an optimizer since the last update(). Call update() at the end of each step.");
  TORCH_CHECK(
      !optimizer.reduces_in_backward(),
      "jitstep: GradScaler: unscale_() of an optimizer that reduces gradients in backward(): ",
      "no rank has all of them. Leave the unscaling to step().");
  TORCH_CHECK(
      !optimizer.copies_in_backward(),
      "jitstep: GradScaler: unscale_() of an optimizer that copies gradients in backward(): ",
      "the GPU has none. Leave the unscaling to step().");
  const Gradients gradients = gradients_of(optimizer, false);
  TORCH_CHECK(
      !gradients.of_dtype.contains(torch::kFloat16),
      "jitstep: GradScaler: unscale_() of float16 gradients would underflow to 0. Leave the ",
      "unscaling to step().");
  progress.found_inf =
      multiply(gradients, scale_.to(torch::kFloat64).reciprocal().to(torch::kFloat32));
  gradients.assign();
  progress.stage = Stage::unscaled;
}

void GradScaler::step(Optimizer& optimizer) {
  if (!is_enabled()) {
    optimizer.step();
    return;
  }
  check_scaled("step");
  const OwnOperations own;
  Progress& progress = progress_of(optimizer);
  TORCH_CHECK(progress.stage != Stage::stepped,
              "jitstep: GradScaler: step() twice for an optimizer ",
              "since the last update(). Call update() at the end of each step.");
  progress.failed = true;  // reset at the end, unless the step throws
  torch::Tensor scale = optimizer.grad_scale(), found = progress.found_inf;
  if (progress.stage == Stage::ready) {
    found = found_inf_in(gradients_of(optimizer, optimizer.reduces_gradients()));
    const torch::Tensor here = number_on(found.device(), scale_);
    scale = scale.defined() ? here * scale : here;
  }
  const ScopedGradScale scoped(optimizer, scale, found);
  optimizer.step();
  progress = {Stage::stepped, found};
}

void GradScaler::update() {
  if (!is_enabled()) return;
  check_scaled("update");
  const OwnOperations own;
  torch::Tensor found;
  for (const auto& [token, progress] : progress_) {
    TORCH_CHECK(!progress.failed || token.expired(),
                "jitstep: GradScaler: update() after a step() that threw: the ",
                "gradients belong to the current scale. Call step(optimizer) again, or skip that ",
                "step with update(get_scale()).");
    const bool abandoned = progress.failed;  // with its gradients
    if (abandoned || !progress.found_inf.defined()) continue;
    const torch::Tensor here = number_on(scale_.device(), progress.found_inf);
    found = found.defined() ? found + here : here;
  }
  TORCH_CHECK(found.defined(),
              "jitstep: GradScaler: update() before any step(). Call step(optimizer) first.");
  at::_amp_update_scale_(scale_, growth_, found, options_.growth_factor(),
                         options_.backoff_factor(), options_.growth_interval());
  progress_.clear();
}

void GradScaler::update(double new_scale) {
  if (!is_enabled()) return;
  check_scaled("update");
  check_scale("the scale", new_scale);
  const OwnOperations own;
  scale_.fill_(new_scale);
  progress_.clear();
}

double GradScaler::get_scale() const {
  if (!is_enabled()) return 1;
  return scale_.defined() ? scale_.item<double>() : options_.init_scale();
}

// Uses the names of torch's state_dict().
void GradScaler::save(torch::serialize::OutputArchive& archive) const {
  if (!is_enabled()) return;
  archive.write("scale", c10::IValue(get_scale()));
  archive.write("growth_factor", c10::IValue(options_.growth_factor()));
  archive.write("backoff_factor", c10::IValue(options_.backoff_factor()));
  archive.write("growth_interval", c10::IValue(options_.growth_interval()));
  archive.write("_growth_tracker",
                c10::IValue(growth_.defined() ? growth_.item<std::int64_t>() : init_growth_));
}

void GradScaler::load(torch::serialize::InputArchive& archive) {
  if (!is_enabled()) return;
  GradScalerOptions loaded;
  loaded.init_scale(read_number(archive, "scale"));
  loaded.growth_factor(read_number(archive, "growth_factor"));
  loaded.backoff_factor(read_number(archive, "backoff_factor"));
  loaded.growth_interval(read_integer(archive, "growth_interval"));
  check_options(loaded);
  const std::int64_t growth = read_integer(archive, "_growth_tracker");
  TORCH_CHECK(growth >= 0 && growth <= std::numeric_limits<std::int32_t>::max(),
              "jitstep: GradScaler: the checkpoint is damaged: its _growth_tracker is ", growth,
              ". Save the scaler again.");
  init_growth_ = growth;
  options_ = loaded;
  const OwnOperations own;
  if (!scale_.defined()) return;
  scale_.fill_(loaded.init_scale());
  growth_.fill_(init_growth_);
}

torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                            const GradScaler& scaler) {
  scaler.save(archive);
  return archive;
}

torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive,
                                           GradScaler& scaler) {
  scaler.load(archive);
  return archive;
}

}  // namespace jitstep
