#include "group.h"

#include <nanobind/stl/string.h>

#include <algorithm>

#include "jitstep/jit/error.h"
#include "jitstep/jit/layout.h"
#include "values.h"

namespace jitstep::python {
namespace {

constexpr const char* kConstructed = "constructed";
constexpr const char* kLr = "lr";
// torch's Adam is AdamW with this option. It selects another rule, which the package then makes another Group for.
constexpr const char* kDecoupled = "decoupled_weight_decay";
constexpr const char* kCapturable = "capturable";
constexpr const char* kDifferentiable = "differentiable";

PyObject* item(const nb::dict& dict, const nb::object& key) {
  return PyDict_GetItemWithError(dict.ptr(), key.ptr());
}

bool is_constant(PyObject* value) {
  if (value == nullptr || value == Py_None || PyBool_Check(value)) return true;
  return PyFloat_CheckExact(value) || PyLong_CheckExact(value) || PyUnicode_CheckExact(value);
}

// A copy of a value that may change in place, or null.
nb::object copy_of(PyObject* value) {
  if (value == nullptr || !PyDict_Check(value)) return {};
  return nb::module_::import_("copy").attr("deepcopy")(nb::borrow(value));
}

// True if the object's value cannot change in place.
bool is_immutable(PyObject* value) {
  if (is_constant(value)) return true;
  if (!PyTuple_CheckExact(value)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_Size(value); ++i)
    if (!is_constant(PyTuple_GetItem(value, i))) return false;
  return true;
}

bool is_true(const nb::dict& group, const char* name) {
  PyObject* const value = PyDict_GetItemString(group.ptr(), name);
  return value != nullptr && PyObject_IsTrue(value) == 1;
}

// The value that an option that is None had when its group was made, or null.
nb::object constructed_value(const nb::dict& group, const std::string& name) {
  PyObject* const all = PyDict_GetItemString(group.ptr(), kConstructed);
  if (all == nullptr || !PyDict_Check(all)) return {};
  PyObject* const found = PyDict_GetItemString(all, name.c_str());
  return found == nullptr ? nb::object() : nb::borrow(found);
}

// Checks the options that torch's optimizers do not have. torch checks no range of its own options later.
void check_common(const jit::OptionValues& values) {
  for (const std::string& name : values.names()) {
    if (values.rule().find(name) != nullptr) continue;
    const jit::Option& option = values.declaration(name);
    const jit::Value value = values.get(name);
    if (const auto index = option.out_of_range(value))
      throw jit::OptionError(values.rule().name + ": " + *option.range_problem(value), name,
                             *index);
  }
}

void check_later_values(const jit::OptionValues& values) {
  values.validate_integers();
  check_common(values);
}

// Messages have the names of state that Python has.
void check_state_formats(const jit::Formats& formats, const jit::OptionValues& values) try {
  jit::check_formats(formats, values);
} catch (const jit::Error& error) {
  const nb::object in_python = nb::module_::import_("jitstep.errors").attr("with_torchs_names");
  throw jit::Error(nb::cast<std::string>(in_python(values.rule().name, error.what())));
}

void check_values(const jit::OptionValues& values, const nb::dict& group) {
  values.validate();
  if (group.contains("params")) values.validate_lists(nb::len(nb::object(group["params"])));
}

}  // namespace

Group::Group(const std::string& rule) : values_(rule), defaults_(values_) {
  for (const std::string& name : values_.names()) add_key(name, &values_.declaration(name));
  for (const char* name :
       {"state", "weights", "seed", "min_quantized_size", kConstructed, kCapturable,
        kDifferentiable})
    add_key(name, nullptr);
  if (values_.rule().find(kDecoupled) == nullptr) add_key(kDecoupled, nullptr);
}

void Group::add_key(const std::string& name, const jit::Option* option) {
  keys_.push_back({name, nb::steal(PyUnicode_InternFromString(name.c_str())), {}, option});
}

// The options of the dict. Those that it lacks have their defaults. `keeps_lr`: the lr stays as it is, because kernels
// read it.
jit::OptionValues Group::read_options(const nb::dict& group, bool keeps_lr) const {
  jit::OptionValues values = defaults_;
  for (const Key& key : keys_) {
    if (key.option == nullptr) continue;
    if (keeps_lr && key.name == kLr) {
      values.set(key.name, values_.get(key.name));
      continue;
    }
    PyObject* value = item(group, key.interned);
    nb::object constructed;
    if ((value == nullptr || value == Py_None) && !key.option->at_construction.empty()) {
      constructed = constructed_value(group, key.name);
      if (constructed.is_valid()) value = constructed.ptr();
    }
    if (value != nullptr) values.set(key.name, to_value(*key.option, value));
  }
  values.construct();
  return values;
}

// The lr, if it is to be left on a GPU.
std::optional<TensorView> Group::lr_on_gpu(const nb::dict& group) const {
  PyObject* const lr = leaves_lr_ ? PyDict_GetItemString(group.ptr(), kLr) : nullptr;
  TensorView view{};
  if (lr == nullptr || is_immutable(lr) || !try_read(lr, view) || view.device.is_cpu()) return {};
  const bool is_float = view.dtype == jit::Dtype::float32 || view.dtype == jit::Dtype::float64;
  return is_float && view.elements() == 1 ? std::optional(view) : std::nullopt;
}

HyperParams Group::hyper_params_on(const Device& device) const {
  HyperParams of_group = hyper_params_;
  if (!lr_) return of_group;
  if (lr_->device != device)
    throw jit::Error("the lr is on " + lr_->device.name() + ", but a parameter is on " +
                     device.name() + ". Set an lr on the parameters' device.");
  of_group.lr = lr_->data;
  of_group.lr_bytes = lr_->bytes;
  return of_group;
}

void Group::remember(const nb::dict& group) {
  for (Key& key : keys_) {
    PyObject* const value = item(group, key.interned);
    key.seen = value == nullptr ? nb::object() : nb::borrow(value);
    key.copy = key.option == nullptr ? copy_of(value) : nb::object();
  }
}

Group::Changes Group::changes(const nb::dict& group) const {
  Changes found{!known_, !known_};
  for (const Key& key : keys_) {
    PyObject* const value = item(group, key.interned);
    const bool other = value != key.seen.ptr();
    if (key.option == nullptr)
      found.formats |= other || (key.copy.is_valid() && !key.copy.equal(key.seen));
    else
      found.values |= other || !is_immutable(value);
  }
  return found;
}

void Group::refresh(const nb::dict& group, bool check) {
  const Changes changed = changes(group);
  if (!changed.values && !changed.formats && !check) return;
  if (changed.formats) nb::module_::import_("jitstep.errors").attr("check_group")(group);
  const std::optional<TensorView> lr = lr_on_gpu(group);
  jit::OptionValues values = read_options(group, lr.has_value());
  // torch checks no range after construction. Options that are whole numbers are checked, because formulas divide by
  // them: a division of whole numbers by 0 would end the process.
  check ? check_values(values, group) : check_later_values(values);
  jit::Formats formats = changed.formats ? to_formats(group) : formats_;
  if (changed.formats) check_state_formats(formats, values);
  const HyperParams fresh = values.at_step(0, formats.seed.value_or(0));
  const bool decoupled = is_true(group, kDecoupled), capturable = is_true(group, kCapturable);
  const bool other_plan = !known_ || decoupled != decoupled_ || capturable != capturable_ ||
                          !(formats == formats_) || !values.same_flags(values_);
  lr_ = lr;
  values_ = std::move(values);
  formats_ = std::move(formats);
  hyper_params_ = fresh;
  decoupled_ = decoupled;
  capturable_ = capturable;
  remember(group);
  known_ = true;
  if (other_plan) ++revision_, plans_.clear();
}

nb::dict Group::constructed() const {
  nb::dict result;
  for (const Key& key : keys_) {
    if (key.option == nullptr || key.option->at_construction.empty()) continue;
    result[key.name.c_str()] = from_value(values_.get(key.name));
  }
  return result;
}

std::shared_ptr<const jit::Plan> Group::plan(jit::Dtype dtype,
                                             const std::vector<std::int64_t>& sizes) {
  auto& plan = plans_[{dtype, sizes}];
  if (plan) return plan;
  const jit::Shape shape{sizes, {}};
  plan = std::make_shared<jit::Plan>(jit::resolve(
      values_, formats_, {dtype, static_cast<int>(sizes.size()), shape.elements(), sizes}));
  return plan;
}

int Group::traverse(visitproc visit, void* arg) const {
  for (const Key& key : keys_) Py_VISIT(key.seen.ptr());
  return 0;
}

}  // namespace jitstep::python
