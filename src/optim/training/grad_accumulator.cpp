#include "jitstep/grad_accumulator.h"

#include <torch/types.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "jit/codegen/gradient_sum.h"
#include "jitstep/jit/plan.h"
#include "optim/optimizer/backward_watch.h"
#include "optim/optimizer/grad_hooks.h"
#include "optim/optimizer/stepper.h"
#include "optim/state/state_buffers.h"
#include "optim/state/state_operations.h"
#include "optim/tensor/backends.h"
#include "optim/tensor/checks.h"
#include "optim/tensor/kernel_tensors.h"
#include "optim/tensor/memory_overlap.h"
#include "optim/tensor/own_operations.h"
#include "optim/tensor/tensor_fingerprint.h"

namespace jitstep {
namespace {

using Plans = std::map<torch::Dtype, std::shared_ptr<const jit::Plan>>;

std::shared_ptr<const jit::Plan> make_plan(torch::Dtype dtype, Rounding rounding) {
  const jit::Dtype sum_dtype = dtype_of(torch::empty({0}, dtype));
  return std::make_shared<jit::Plan>(
      jit::gradient_sum_plan(sum_dtype, rounding == Rounding::stochastic));
}

// One parameter and its sum.
struct Sum {
  torch::Tensor p;
  torch::Dtype dtype = torch::kBFloat16;
  torch::Tensor values = {};               // reused from one accumulation window to the next
  bool started = false;                    // a gradient was added in this window
  bool waits = false;                      // p has a gradient that is not added yet
  std::int64_t bytes = 0;                  // of the gradient that waits
  std::int64_t version = 0;                // the same: torch increments it with each addition
  std::int64_t last_backward = 0;          // the number of the last one with a gradient
  StateBuffers state = {};                 // the kernel, and the parameter's number
  StepParam param = {};                    // the values and the gradient of a step
  TensorFingerprint fingerprint = {};      // of the values
  TensorFingerprint gradient_form = {};    // of the last gradient
  std::optional<c10::Stream> stream = {};  // the stream of the last gradient

  ParameterName name() const { return {0, static_cast<std::size_t>(state.id)}; }

  // Fills with -0, the neutral element: -0 + x is x for every x, also for x = -0.
  void begin() {
    const bool own = values.defined() && values.use_count() == 1 &&
                     values.storage().use_count() == 1 && fingerprint.same_storage(values) &&
                     values.sizes() == p.sizes() && values.device() == p.device();
    if (!own) {
      values = torch::empty_like(p, p.options().dtype(dtype).requires_grad(false));
      fingerprint = TensorFingerprint(values);
      ++param.version;
    }
    values.fill_(-0.0);
  }

  StepParam* in_step(const torch::Tensor* g) {
    param.name = name();
    param.p = &values;
    param.grad = g;
    param.g = g == nullptr ? nullptr : g->const_data_ptr();
    param.buffers = &state;
    return &param;
  }
};

// torch counts no versions of tensors that were made in inference mode.
std::int64_t version_of(const torch::Tensor& g) {
  return g.defined() && !g.is_inference() ? g._version() : 0;
}

void check_sum(const Sum& sum) {
  TORCH_CHECK(sum.values.sizes() == sum.p.sizes() && sum.values.device() == sum.p.device(),
              "jitstep: GradAccumulator: the sum of parameter ", sum.state.id, " has the shape ",
              sum.values.sizes(), " on ", sum.values.device(),
              ", but the parameter now has the shape ", sum.p.sizes(), " on ", sum.p.device(),
              ". Call reset() after parameters change.");
}

std::vector<torch::Tensor> parameters_of(const std::deque<Sum>& sums) {
  std::vector<torch::Tensor> parameters;
  for (const Sum& sum : sums) parameters.push_back(sum.p);
  return parameters;
}

}  // namespace

struct GradAccumulator::State {
  GradAccumulatorOptions options;
  std::deque<Sum> sums;
  std::vector<HyperParams> hyper_params;
  std::int64_t backwards = 0, micro_batches = 0;  // since construction; in this window
  std::shared_ptr<BackwardWatch> watch;           // its lock protects all other data
  std::optional<GradHooks> hooks;

  // ---- about the outermost backward that is running
  std::vector<Sum*> waiting;  // gradients that are not added yet
  std::vector<Sum*> failed;   // whose gradients could not be added, for drop()
  std::int64_t bytes = 0;     // of these gradients
  std::size_t steps = 0;      // adding steps so far
  bool added = false;
  std::deque<Stepper> steppers;  // one per step, so that the next backward reuses its tables

  void add_parameters(const std::vector<torch::Tensor>& parameters);
  bool has_left(const Sum& latest) const;
  void on_gradient(Sum& sum);
  void end_backward();
  void stop_waiting(Sum& sum);
  void drop();
  void add(const std::vector<Sum*>& waited, bool all);
  void add_present(const std::vector<Sum*>& waited, bool all);
  void step(const std::vector<Sum*>& present, const std::deque<torch::Tensor>& gradients, bool all);
};

void GradAccumulator::State::add_parameters(const std::vector<torch::Tensor>& parameters) {
  std::set<const void*> listed;
  Plans plans;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& p = parameters[i];
    check_parameter(p, {0, i});
    if (!listed.insert(p.unsafeGetTensorImpl()).second) continue;
    Sum sum{.p = p};
    sum.dtype = p.scalar_type() == torch::kFloat64 ? torch::kFloat64 : options.dtype();
    auto& plan = plans[sum.dtype];
    if (!plan) plan = make_plan(sum.dtype, options.rounding());
    sum.state = state_outline(plan);
    sum.state.id = static_cast<int>(sums.size());
    sums.push_back(std::move(sum));
  }
}

// Whether a failed backward has left gradients. That of `latest` is new, or torch has added it to what was left. With
// create_graph, torch makes a new tensor of the sum. It then counts as new.
bool GradAccumulator::State::has_left(const Sum& latest) const {
  return added || std::any_of(waiting.begin(), waiting.end(), [&](const Sum* one) {
           const torch::Tensor& g = one->p.grad();
           return g.defined() && (one != &latest || version_of(g) > one->version);
         });
}

// A gradient that a failed backward left behind is in `waiting` already. The failed backward then counts. Only gradients
// of this stream are added here, because those of other streams may not be complete yet. Each backward gets its own
// number, because random bits depend on it.
void GradAccumulator::State::on_gradient(Sum& sum) {
  const auto lock = watch->lock();
  const bool unfinished = watch->is_running();
  const int before = watch->outermost();
  if (watch->note_gradient()) ++backwards;
  if (unfinished && watch->outermost() > before && has_left(sum)) {
    ++micro_batches;
    added = false;
  }
  if (!std::exchange(sum.waits, true)) waiting.push_back(&sum);
  sum.stream = current_stream(sum.p.device());
  sum.version = version_of(sum.p.grad());
  bytes -= sum.bytes;
  sum.bytes =
      has_data(sum.p.grad()) ? static_cast<std::int64_t>(sum.p.grad().nbytes()) : std::int64_t{0};
  bytes += sum.bytes;
  if (bytes <= options.max_waiting_bytes()) return;
  const auto rest = std::stable_partition(
      waiting.begin(), waiting.end(), [&](const Sum* one) { return one->stream != sum.stream; });
  const std::vector<Sum*> here(rest, waiting.end());
  waiting.erase(rest, waiting.end());
  add(here, false);
}

void GradAccumulator::State::end_backward() {
  const bool all = std::exchange(steps, 0) == 0;
  watch->reset();
  add(std::exchange(waiting, {}), all);
  if (std::exchange(added, false)) ++micro_batches;
}

void GradAccumulator::State::stop_waiting(Sum& sum) {
  sum.waits = false;
  bytes -= std::exchange(sum.bytes, 0);
}

// Drops the sums, and the gradients that a failed backward left behind.
void GradAccumulator::State::drop() {
  waiting.insert(waiting.end(), failed.begin(), failed.end());
  failed.clear();
  for (Sum* const sum : std::exchange(waiting, {})) {
    stop_waiting(*sum);
    sum->p.mutable_grad().reset();
  }
  for (Sum& sum : sums) sum.started = false;
  watch->reset();
  steps = 0;
  micro_batches = 0;
  added = false;
}

// `all`: these are all gradients of this backward. After an error, drop() removes them.
void GradAccumulator::State::add(const std::vector<Sum*>& waited, bool all) {
  for (Sum* const sum : waited) stop_waiting(*sum);
  try {
    add_present(waited, all);
  } catch (...) {
    failed.insert(failed.end(), waited.begin(), waited.end());
    throw;
  }
}

// Checks all gradients before it adds any.
void GradAccumulator::State::add_present(const std::vector<Sum*>& waited, bool all) {
  const OwnOperations own;
  std::vector<Sum*> present;
  std::deque<torch::Tensor> gradients;
  for (Sum* const sum : waited) {
    const torch::Tensor& g = sum->p.grad();
    if (!g.defined()) continue;
    gradients.push_back(is_lazy(g) ? materialized(g) : g);
    check_gradient(sum->started ? sum->values : sum->p, gradients.back(), sum->name());
    present.push_back(sum);
  }
  if (present.empty()) return;
  step(present, gradients, all);
  for (Sum* const sum : present) {
    sum->started = true;
    sum->p.mutable_grad().reset();
  }
  added = true;
}

void GradAccumulator::State::step(const std::vector<Sum*>& present,
                                  const std::deque<torch::Tensor>& gradients, bool all) {
  std::vector<StepParam*> active, inactive;
  for (std::size_t i = 0; i < present.size(); ++i) {
    Sum& sum = *present[i];
    if (!sum.started) sum.begin();
    if (!sum.gradient_form.same_metadata(gradients[i])) ++sum.param.version;
    sum.gradient_form = TensorFingerprint(gradients[i], TensorFingerprint::Access::read);
    sum.state.t = backwards - 1;
    sum.last_backward = backwards;
    active.push_back(sum.in_step(&gradients[i]));
  }
  if (all)
    for (Sum& sum : sums)
      if (sum.values.defined() && sum.last_backward != backwards)
        inactive.push_back(sum.in_step(nullptr));
  if (steps == steppers.size()) steppers.emplace_back();
  steppers[steps++].step({active, inactive, hyper_params}, nullptr, {});
}

GradAccumulator::GradAccumulator(const std::vector<torch::Tensor>& parameters,
                                 const GradAccumulatorOptions& options)
    : state_(std::make_shared<State>()) {
  TORCH_CHECK(options.dtype() == torch::kBFloat16 || options.dtype() == torch::kFloat32,
              "jitstep: GradAccumulator: dtype is ", options.dtype(),
              ". Set it to bfloat16 or float32.");
  TORCH_CHECK(options.max_waiting_bytes() >= 0, "jitstep: GradAccumulator: max_waiting_bytes is ",
              options.max_waiting_bytes(), ". Set it to 0 or more.");
  state_->options = options;
  state_->hyper_params = {jit::gradient_sum_params(options.seed())};
  state_->add_parameters(parameters);
  state_->watch = std::make_shared<BackwardWatch>([weak = std::weak_ptr(state_)] {
    if (const auto state = weak.lock()) state->end_backward();
  });
  state_->hooks.emplace(
      "a GradAccumulator", parameters_of(state_->sums),
      [state = state_.get()](std::size_t i) { state->on_gradient(state->sums[i]); });
}

GradAccumulator::~GradAccumulator() = default;
GradAccumulator::GradAccumulator(GradAccumulator&&) noexcept = default;
GradAccumulator& GradAccumulator::operator=(GradAccumulator&&) noexcept = default;

void GradAccumulator::assign_gradients() {
  const OwnOperations own;
  const auto lock = state_->watch->lock();
  for (const Sum& sum : state_->sums)
    if (sum.started) check_sum(sum);
  state_->end_backward();  // in case a backward failed
  state_->failed.clear();
  std::vector<torch::Tensor> assigned;
  for (Sum& sum : state_->sums)
    if (std::exchange(sum.started, false)) assigned.push_back(sum.p.mutable_grad() = sum.values);
  const auto count = static_cast<double>(std::exchange(state_->micro_batches, 0));
  if (!state_->options.mean()) return;
  for (torch::Tensor& sum : assigned) sum.div_(count);
}

void GradAccumulator::reset() {
  const auto lock = state_->watch->lock();
  state_->drop();
}

std::int64_t GradAccumulator::micro_batches() const { return state_->micro_batches; }

}  // namespace jitstep
