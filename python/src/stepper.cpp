#include "stepper.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "backends.h"
#include "cuda_host.h"
#include "jitstep/jit/error.h"

namespace jitstep::python {

// Host transforms are functions of the program, and other threads run while a step has released the GIL.
void Stepper::check_idle() const {
  if (running_)
    throw jit::Error(
        "a step of this optimizer is running: a host transform, a signal handler or another thread "
        "has called it. "
        "Call it after the step.");
}

void Stepper::begin(std::vector<Group*> groups, nb::list owners) {
  check_idle();
  retire();
  clear();
  groups_ = std::move(groups);
  owners_ = std::move(owners);
}

// Later work on the current stream, such as that of new tables, follows the steps of the current tables.
void Stepper::retire() {
  for (const DeviceStep& device : devices_) check_not_capturing(device.device);
  activate(nullptr);
  for (DeviceStep& device : devices_)
    if (device.step && !device.device.is_cpu()) device.step->wait_for_last_step();
}

void Stepper::clear() {
  ready_ = moved_ = device_counts_ = check_gradients_ = false;
  other_stepped_ = true;
  devices_.clear();
  members_.clear();
  forms_.clear();
  groups_.clear();
  owners_ = nb::list();
  stepped_ = nb::list();
  watch_.clear();
}

// Replays that are still queued read the tables of captured steps.
void Stepper::wait_for_replays() const noexcept {
  try {
    for (const auto& [device, step] : captured_) wait_for_all(device);
    for (const DeviceStep& device : devices_)
      if (device.step && device.step->is_captured()) wait_for_all(device.device);
  } catch (const std::exception&) {  // the driver has ended, with all replays
  }
}

Stepper::~Stepper() { wait_for_replays(); }

void Stepper::release() {
  wait_for_replays();
  clear();
  tuner_.reset();
  agree_.reset();
}

bool Stepper::read_groups(const nb::list& param_groups) {
  if (nb::len(param_groups) != groups_.size()) return false;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const nb::object group = param_groups[g];
    if (!PyDict_Check(group.ptr())) return false;
    groups_[g]->refresh(nb::borrow<nb::dict>(group));
    if (groups_[g]->revision() != revisions_[g])
      return false;  // another caller may have refreshed it
  }
  return true;
}

int Stepper::DeviceStep::hyper_index(int group, std::int64_t t, const HyperParams& of_group) {
  auto& known = hyper_of_group[static_cast<std::size_t>(group)];
  for (const int index : known)
    if (hyper_params[static_cast<std::size_t>(index)].t == t) return index;
  HyperParams& added = hyper_params.emplace_back(of_group);
  added.t = t;
  added.grad_scale = grad_scale.address;
  known.push_back(static_cast<int>(hyper_params.size()) - 1);
  return known.back();
}

// The device subtracts the counter, 1 - step, from this number.
int Stepper::DeviceStep::counted_hyper_index(int64* counter, const Group& group) {
  constexpr std::int64_t kNext = 2;
  HyperParams& added = hyper_params.emplace_back(group.hyper_params_on(device));
  added.t = kNext;
  added.step_offset = counter;
  added.grad_scale = grad_scale.address;
  added.found_inf = found_inf.address;
  return static_cast<int>(hyper_params.size()) - 1;
}

void Stepper::DeviceStep::start(std::size_t groups) {
  hyper_params.clear();
  hyper_of_group.resize(groups);
  for (auto& known : hyper_of_group) known.clear();
}

int Stepper::hyper_index(const Member& member, std::int64_t t) {
  const Group& group = *groups_[static_cast<std::size_t>(member.group)];
  DeviceStep& device = devices_[member.device];
  if (member.counter != nullptr) return device.counted_hyper_index(member.counter, group);
  return device.hyper_index(member.group, t, group.hyper_params());
}

// GradScaler has a number on its device only.
void Stepper::DeviceNumber::read(nb::handle tensor, const Device& device) {
  address = nullptr;
  copy = nb::object();
  if (tensor.is_none()) return;
  TensorView view = python::read(tensor);
  if (view.device != device || view.dtype != jit::Dtype::float32) {
    copy = tensor.attr("to")(device.name(), nb::module_::import_("torch").attr("float32"));
    view = python::read(copy);
  }
  address = reinterpret_cast<const float*>(view.data);
}

void Stepper::read_numbers(nb::handle grad_scale, nb::handle found_inf) {
  for (DeviceStep& device : devices_) {
    device.grad_scale.read(grad_scale, device.device);
    device.found_inf.read(device_counts_ ? found_inf : nb::none(), device.device);
  }
}

namespace {

// True if torch has not applied a conjugation or negation to the memory yet.
bool is_lazy(const nb::object& tensor, bool is_complex) {
  static PyObject* const kConj = PyUnicode_InternFromString("is_conj");
  static PyObject* const kNeg = PyUnicode_InternFromString("is_neg");
  const auto is_true = [&](PyObject* method) {
    const nb::object answer = nb::steal(PyObject_CallMethodObjArgs(tensor.ptr(), method, nullptr));
    if (!answer.is_valid()) throw nb::python_error();
    return answer.ptr() == Py_True;
  };
  return is_true(kNeg) || (is_complex && is_true(kConj));
}

constexpr std::size_t kAhead = 8;  // parameters that are fetched before they are read

// The part of a DTensor that this process has.
nb::object local_of(nb::handle tensor) {
  static PyObject* const kLocal = PyUnicode_InternFromString("_local_tensor");
  const nb::object local = nb::steal(PyObject_GetAttr(tensor.ptr(), kLocal));
  if (!local.is_valid()) throw nb::python_error();
  return local;
}

}  // namespace

void Stepper::set_inactive(Member& member) {
  if (std::exchange(member.inactive, true)) return;
  other_stepped_ = true;
  devices_[member.device].inputs[member.index] = {.inactive = true};
}

bool Stepper::Member::read_data() {
  return forms->p.read(sharded ? local_of(p).ptr() : p.ptr(), data);
}

bool Stepper::read_member(Member& member, PyObject* p) {
  if (member.p.ptr() != p) return false;
  static PyObject* const kGrad = PyUnicode_InternFromString("grad");
  nb::object grad = nb::steal(PyObject_GetAttr(p, kGrad));
  if (!grad.is_valid()) throw nb::python_error();
  if (grad.is_none()) {
    set_inactive(member);
    return true;
  }
  if (!member.described) return false;
  if (member.sharded) {
    if (!grad.attr("placements").equal(nb::handle(p).attr("placements"))) return false;
    grad = local_of(grad);
  }
  char* const data = member.data;
  char* g = nullptr;
  const Form& form = member.forms->g;
  if (!member.read_data() || !form.read(grad.ptr(), g) ||
      (form.may_be_lazy() && is_lazy(grad, form.is_complex())))
    return false;
  if (g == nullptr && member.described->plan.shape.elements() > 0) return false;
  const bool is_counted = member.counter != nullptr;  // on the device
  const std::int64_t taken = is_counted ? 0 : member.count.get();
  if (member.newest_half >= 0 && member.newest_half != (taken & 1))
    return false;  // set by the caller
  // New tables throw, or warn of values that step 1 does not read: a program may have set them since the last tables.
  if (taken < 0 || (taken == 0 && !is_counted && !is_bound_now_)) return false;
  if (taken >= StepNumber::kMostOfFloat && !member.count.can_count()) return false;
  moved_ |= data != member.data;
  DeviceStep& device = devices_[member.device];
  const int index = hyper_index(member, taken + 1);
  const auto bits = member.state_bits | reinterpret_cast<std::uintptr_t>(member.data) |
                    reinterpret_cast<std::uintptr_t>(g);
  jit::StepInput& input = device.inputs[member.index];
  check_gradients_ |= g != input.g && is_gradient_in_parameter(member, g);
  input = {.g = g, .hyper_index = index, .aligned = bits % 16 == 0};
  activated_ |= std::exchange(member.inactive, false);
  return true;
}

void Stepper::Member::prefetch() const {
  __builtin_prefetch(p.ptr());
  __builtin_prefetch(count.data());
}

// True if every parameter with a gradient is in the tables, with a gradient of the same form.
bool Stepper::read_members(const nb::list& param_groups) {
  for (DeviceStep& device : devices_) device.start(groups_.size());
  std::size_t next = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    nb::object params = nb::borrow(PyDict_GetItemString(param_groups[g].ptr(), "params"));
    if (!params.is_valid()) return false;
    if (!PyList_Check(params.ptr()) && !PyTuple_Check(params.ptr())) params = nb::list(params);
    const bool is_list = PyList_Check(params.ptr());
    const Py_ssize_t count = is_list ? PyList_Size(params.ptr()) : PyTuple_Size(params.ptr());
    for (Py_ssize_t k = 0; k < count; ++k, ++next) {
      if (next + kAhead < members_.size()) members_[next + kAhead].prefetch();
      PyObject* const p =
          is_list ? PyList_GetItem(params.ptr(), k) : PyTuple_GetItem(params.ptr(), k);
      if (p == nullptr) throw nb::python_error();  // a tensor's method has shortened the list
      if (next >= members_.size() || !read_member(members_[next], p)) return false;
      if (members_[next].described && members_[next].group != static_cast<int>(g)) return false;
    }
  }
  if (next != members_.size()) return false;
  other_stepped_ |= activated_;
  if (!other_stepped_) return true;
  stepped_ = nb::list();
  for (const Member& member : members_)
    if (!member.inactive) stepped_.append(member.p);
  other_stepped_ = false;
  return true;
}

// Adds the inputs that the rule reads in addition to the gradient.
void Stepper::read_given(const nb::dict& given) {
  if (PyDict_Size(given.ptr()) == 0) return;
  for (const Member& member : members_) {
    PyObject* const own = PyDict_GetItemWithError(given.ptr(), member.p.ptr());
    if (own == nullptr && PyErr_Occurred()) throw nb::python_error();
    if (own == nullptr || member.inactive) continue;
    for (const auto& [number, value] : nb::borrow<nb::dict>(own))
      devices_[member.device].inputs[member.index].inputs.at(nb::cast<std::size_t>(number)) =
          read(value).data;
  }
}

Stepper::Result Stepper::step(const nb::list& param_groups, const nb::dict& state,
                              nb::handle grad_scale, nb::handle found_inf, nb::handle transform,
                              const nb::dict& given) {
  check_idle();
  if (!ready_ || leave_graphs() || grad_scale.is_none() == scaled_ || !read_groups(param_groups) ||
      !watch_.is_same(state))
    return Result::rebuild;
  read_numbers(grad_scale, found_inf);
  const bool fit = read_members(param_groups);
  is_bound_now_ = false;
  if (!fit) return Result::rebuild;
  if (!device_counts_ && !found_inf.is_none() && nb::cast<double>(nb::float_(found_inf)) != 0)
    return Result::skipped;
  if (nb::len(stepped_) == 0) return Result::done;
  if (moved_ && !move_parameters()) return Result::rebuild;
  if (std::exchange(activated_, false)) check_gradients_ |= are_gradients_in_parameters();
  if (check_gradients_) check_gradients();
  check_gradients_ = false;
  check_grad_scale();
  read_given(given);
  run(transform);
  if (!device_counts_) count_steps();
  return Result::done;
}

std::vector<KernelInfo> Stepper::kernels() const {
  std::vector<KernelInfo> kernels;
  for (const DeviceStep& device : devices_) {
    for (std::size_t b = 0; device.step && b < device.batches.size(); ++b) {
      const jit::Kernel& kernel = device.step->kernel(b);
      const jit::ConfigChoice& choice = device.step->choice(b);
      KernelInfo info{kernel.name(),       jit::to_string(kernel.target()),
                      kernel.key(),        jit::to_string(choice.config),
                      choice.why,          kernel.from_cache(),
                      kernel.compile_ms(), {}};
      for (const jit::StepTensor& tensor : device.batches[b].tensors)
        info.parameters.push_back(tensor.id);
      kernels.push_back(std::move(info));
    }
  }
  return kernels;
}

int Stepper::traverse(visitproc visit, void* arg) const {
  Py_VISIT(owners_.ptr());
  Py_VISIT(agree_.ptr());
  Py_VISIT(stepped_.ptr());
  for (const Member& member : members_) {
    Py_VISIT(member.p.ptr());
    Py_VISIT(member.count.tensor().ptr());
    for (const NewestView& view : member.newest) {
      Py_VISIT(view.dict.ptr());
      Py_VISIT(view.key.ptr());
      for (const nb::object& buffer : view.buffers) Py_VISIT(buffer.ptr());
    }
  }
  return watch_.traverse(visit, arg);
}

}  // namespace jitstep::python
