#include "stepper.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "backends.h"
#include "jit/tuning/hardware.h"
#include "jitstep/jit/error.h"

namespace jitstep::python {

void Stepper::begin(std::vector<Group*> groups, nb::list owners) {
  clear();
  groups_ = std::move(groups);
  owners_ = std::move(owners);
  hyper_of_group_.assign(groups_.size(), {});
}

void Stepper::clear() {
  ready_ = moved_ = false;
  step_.reset();
  members_.clear();
  batches_.clear();
  groups_.clear();
  owners_ = nb::list();
  stepped_ = nb::list();
  watch_.clear();
}

void Stepper::add(nb::object p, int group, const ParamPlan& plan, const Buffers& buffers,
                  nb::object step, nb::handle gradient, nb::object state) {
  Member member;
  member.sharded = p.ptr() != buffers.p.ptr();
  member.p = std::move(p);
  member.group = group;
  member.plan = plan;
  member.tensor = plan.tensor(buffers);
  member.p_dtype = plan.plan->spec.state.dtype;
  const TensorView form = read(gradient);
  if (!form.dtype) throw jit::Error("its gradient has an unsupported dtype.");
  member.g_dtype = *form.dtype;
  member.tensor.g_strides = form.shape().strides;
  if (!step.is_none()) {
    member.count = StepNumber(step);
    watch_.add(step);
  }
  for (const auto& [codes, scales] : buffers.slots) watch_.add(codes), watch_.add(scales);
  watch_.add(buffers.residual);
  const std::vector<AuxInfo> fields = plan.aux();
  for (std::size_t i = 0; i < buffers.aux.size(); ++i) {
    watch_.add(buffers.aux[i]);
    member.newest.push_back({state,
                             nb::cast(fields[i].name.c_str()),
                             {buffers.aux[i][nb::int_(0)], buffers.aux[i][nb::int_(1)]}});
  }
  members_.push_back(std::move(member));
}

void Stepper::add_inactive(nb::object p) {
  Member member;
  member.p = std::move(p);
  members_.push_back(std::move(member));
}

bool Stepper::read_groups(nb::list param_groups) {
  if (nb::len(param_groups) != groups_.size()) return false;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    hyper_of_group_[g].clear();
    const nb::object group = param_groups[g];
    if (!PyDict_Check(group.ptr())) return false;
    if (groups_[g]->refresh(nb::borrow<nb::dict>(group)) == Group::Change::plan) return false;
  }
  return true;
}

int Stepper::hyper_index(int group, std::int64_t t, const float* grad_scale) {
  auto& known = hyper_of_group_[static_cast<std::size_t>(group)];
  for (const int index : known)
    if (hyper_params_[static_cast<std::size_t>(index)].t == t) return index;
  HyperParams& made =
      hyper_params_.emplace_back(groups_[static_cast<std::size_t>(group)]->hyper_params());
  made.t = t;
  made.grad_scale = grad_scale;
  known.push_back(static_cast<int>(hyper_params_.size()) - 1);
  return known.back();
}

namespace {

// True if torch has not applied a conjugation or negation to the memory yet.
bool is_lazy(const nb::object& tensor, bool is_complex) {
  static PyObject* const kConj = PyUnicode_InternFromString("is_conj");
  static PyObject* const kNeg = PyUnicode_InternFromString("is_neg");
  const nb::object answer =
      nb::steal(PyObject_CallMethodObjArgs(tensor.ptr(), is_complex ? kConj : kNeg, nullptr));
  if (!answer.is_valid()) throw nb::python_error();
  return answer.ptr() == Py_True;
}

// The part of a DTensor that this process has.
nb::object local_of(nb::handle tensor) {
  static PyObject* const kLocal = PyUnicode_InternFromString("_local_tensor");
  const nb::object local = nb::steal(PyObject_GetAttr(tensor.ptr(), kLocal));
  if (!local.is_valid()) throw nb::python_error();
  return local;
}

}  // namespace

bool Stepper::read_member(Member& member, PyObject* p, const float* grad_scale, bool& changed) {
  if (member.p.ptr() != p) return false;
  static PyObject* const kGrad = PyUnicode_InternFromString("grad");
  nb::object grad = nb::steal(PyObject_GetAttr(p, kGrad));
  if (!grad.is_valid()) throw nb::python_error();
  if (grad.is_none()) {
    if (member.plan) inputs_[member.index] = {.inactive = true};
    changed |= !member.inactive;
    member.inactive = true;
    return true;
  }
  TensorView view;
  const jit::StepTensor& tensor = member.tensor;
  nb::object local = nb::borrow(p);
  if (member.sharded) local = local_of(local), grad = local_of(grad);
  if (!member.plan || !try_read(local.ptr(), view) || !view.is_cpu ||
      view.dtype != member.p_dtype || !view.has_shape(tensor.shape.sizes, tensor.shape.strides))
    return false;
  moved_ |= view.data != tensor.p;
  member.tensor.p = view.data;
  if (!try_read(grad.ptr(), view) || view.dtype != member.g_dtype || !view.is_cpu ||
      !view.has_shape(tensor.shape.sizes, tensor.g_strides) || is_lazy(grad, view.is_complex))
    return false;
  const int index = hyper_index(member.group, member.count.get() + 1, grad_scale);
  inputs_[member.index] = {.g = view.data, .hyper_index = index, .aligned = true};
  changed |= member.inactive;
  member.inactive = false;
  return true;
}

// True if every parameter with a gradient is in the tables, with a gradient of the same form.
bool Stepper::read_members(nb::list param_groups, const float* grad_scale) {
  hyper_params_.clear();
  std::size_t next = 0;
  bool changed = false;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    PyObject* const params = PyDict_GetItemString(param_groups[g].ptr(), "params");
    if (params == nullptr || !PyList_Check(params)) return false;
    for (Py_ssize_t k = 0; k < PyList_Size(params); ++k, ++next)
      if (next >= members_.size() ||
          !read_member(members_[next], PyList_GetItem(params, k), grad_scale, changed))
        return false;
  }
  if (next != members_.size()) return false;
  if (!changed) return true;
  stepped_ = nb::list();
  for (const Member& member : members_)
    if (!member.inactive) stepped_.append(member.p);
  return true;
}

// Adds the inputs that the rule reads in addition to the gradient.
void Stepper::read_given(nb::dict given) {
  if (PyDict_Size(given.ptr()) == 0) return;
  for (const Member& member : members_) {
    PyObject* const own = PyDict_GetItemWithError(given.ptr(), member.p.ptr());
    if (own == nullptr && PyErr_Occurred()) throw nb::python_error();
    if (own == nullptr || member.inactive) continue;
    for (const auto& [number, value] : nb::borrow<nb::dict>(own))
      inputs_[member.index].inputs.at(nb::cast<std::size_t>(number)) = read(value).data;
  }
}

Stepper::Result Stepper::step(nb::list param_groups, nb::dict state, nb::handle grad_scale,
                              nb::handle found_inf, nb::handle transform, nb::dict given) {
  const float* scale = nullptr;
  if (!grad_scale.is_none()) scale = reinterpret_cast<const float*>(read(grad_scale).data);
  if (!ready_ || (scale != nullptr) != scaled_ || !read_groups(param_groups) ||
      !watch_.is_same(state) || !read_members(param_groups, scale))
    return Result::rebuild;
  if (!found_inf.is_none() && nb::cast<double>(nb::float_(found_inf)) != 0) return Result::skipped;
  if (nb::len(stepped_) == 0) return Result::done;
  if (moved_) move_parameters();
  read_given(given);
  run(transform);
  count_steps();
  return Result::done;
}

void Stepper::tune(bool on, nb::object agree) {
  tuner_.reset();
  tuning_is_settled_ = tables_are_new_ = true;
  if (!on) return;
  jit::Agreement agreement;
  // Copies of the function are made without the GIL, so they share one reference.
  if (!agree.is_none())
    agreement = [shared = std::make_shared<nb::object>(agree)](const std::vector<double>& own) {
      const nb::gil_scoped_acquire acquire;
      return nb::cast<std::vector<double>>((*shared)(own));
    };
  tuner_ = jit::make_step_tuner(true, std::move(agreement));
}

std::pair<std::size_t, std::size_t> Stepper::tuning_progress() const {
  if (!tuner_) return {};
  const jit::TuningProgress now = tuner_->progress();
  return {now.tried, now.candidates};
}

// The step with the configurations that the tuner tries or has chosen, or the default one.
jit::Step& Stepper::step_to_run() {
  if (!std::exchange(tuning_is_settled_, true)) tuner_ = jit::make_step_tuner(false, {});
  if (!tuner_) return *step_;
  const jit::TunedTables tables{
      cpu_backend(), batches_, shared_state_.get(),
      [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }};
  if (std::exchange(tables_are_new_, false)) tuner_->begin(tables, jit::host_hardware());
  jit::Step* const tuned = tuner_->choose(tables, inputs_, hyper_params_);
  return tuned != nullptr ? *tuned : *step_;
}

void Stepper::run(nb::handle transform) {
  const nb::gil_scoped_release release;
  jit::Step& step = step_to_run();
  const auto start = std::chrono::steady_clock::now();
  if (transform.is_none())
    step.run(inputs_, hyper_params_);
  else
    step.run(inputs_, hyper_params_, [&](const std::vector<jit::TransformedTensor>& tensors) {
      const nb::gil_scoped_acquire acquire;
      call_transform(transform, tensors);
    });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (tuner_ && tuner_->is_trial()) tuner_->record(seconds.count());
}

// Gives the function (group, address, sizes, strides, is_double, step) of each tensor.
void Stepper::call_transform(nb::handle transform,
                             const std::vector<jit::TransformedTensor>& tensors) {
  nb::list given;
  for (const jit::TransformedTensor& one : tensors) {
    const Member& member = members_[member_of_[one.tensor]];
    nb::list sizes, strides;
    for (const std::int64_t size : member.tensor.shape.sizes) sizes.append(size);
    for (const std::int64_t stride : member.plan->compact_strides()) strides.append(stride);
    given.append(nb::make_tuple(member.group, reinterpret_cast<std::size_t>(one.values), sizes,
                                strides, member.p_dtype == jit::Dtype::float64,
                                member.count.get() + 1));
  }
  nb::borrow(transform)(given);
}

void Stepper::count_steps() {
  for (Member& member : members_) {
    if (member.inactive || !member.plan) continue;
    member.count.count();
    const auto newest = static_cast<std::size_t>(member.count.get() & 1);
    for (const NewestView& view : member.newest)
      StateWatch::set(view.dict, *view.entry, view.buffers[newest]);
  }
}

void Stepper::switch_mode(bool train) {
  hyper_params_.clear();
  for (auto& known : hyper_of_group_) known.clear();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Member& member = members_[member_of_[i]];
    const std::int64_t t = member.count.get();
    inputs_[i] = {.inactive = t == 0};
    if (t > 0) inputs_[i].hyper_index = hyper_index(member.group, t, nullptr);
  }
  const bool moves = std::any_of(inputs_.begin(), inputs_.end(),
                                 [](const jit::StepInput& one) { return !one.inactive; });
  if (!moves) return;
  const nb::gil_scoped_release release;
  step_->run(train ? jit::Mode::train : jit::Mode::eval, inputs_, hyper_params_);
}

std::vector<double> Stepper::shared_state() const {
  if (!shared_state_ || shared_state_->buffers[0] == nullptr) return {};
  const double* const now = shared_state_->now();
  return {now, now + (shared_state_->buffers[1] - shared_state_->buffers[0])};
}

void Stepper::set_shared_state(const std::vector<double>& values) {
  drop();
  step_.reset();
  shared_state_.reset();
  if (values.empty()) return;
  shared_state_ = std::make_unique<jit::SharedState>();
  const std::size_t bytes = values.size() * sizeof(double);
  shared_state_->storage = cpu_backend().allocate(2 * bytes);
  auto* const first = static_cast<double*>(shared_state_->storage.get());
  shared_state_->buffers = {first, first + values.size()};
  for (double* const buffer : shared_state_->buffers)
    std::copy(values.begin(), values.end(), buffer);
}

std::vector<KernelInfo> Stepper::kernels() const {
  std::vector<KernelInfo> kernels;
  if (!step_) return kernels;
  for (std::size_t b = 0; b < batches_.size(); ++b) {
    const jit::Kernel& kernel = step_->kernel(b);
    const jit::ConfigChoice& choice = step_->choice(b);
    KernelInfo info{kernel.name(),       jit::to_string(kernel.target()),
                    kernel.key(),        jit::to_string(choice.config),
                    choice.why,          kernel.from_cache(),
                    kernel.compile_ms(), {}};
    for (const jit::StepTensor& tensor : batches_[b].tensors) info.parameters.push_back(tensor.id);
    kernels.push_back(std::move(info));
  }
  return kernels;
}

int Stepper::traverse(visitproc visit, void* arg) const {
  Py_VISIT(owners_.ptr());
  Py_VISIT(stepped_.ptr());
  for (const Member& member : members_) {
    Py_VISIT(member.p.ptr());
    Py_VISIT(member.count.tensor().ptr());
    for (const NewestView& view : member.newest) Py_VISIT(view.dict.ptr());
  }
  return watch_.traverse(visit, arg);
}

}  // namespace jitstep::python
