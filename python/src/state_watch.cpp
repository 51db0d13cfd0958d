#include "state_watch.h"

#include "exchange.h"

namespace jitstep::python {
namespace {

constexpr std::size_t kAhead = 8;  // dicts that are fetched before they are read

}  // namespace

StepNumber::StepNumber(nb::object tensor) : tensor_(std::move(tensor)) {
  const TensorView view = read(tensor_);
  const bool is_float = view.dtype == jit::Dtype::float32 || view.dtype == jit::Dtype::float64;
  if (!is_float || !view.device.is_cpu() || view.elements() != 1)
    throw nb::type_error("jitstep: the state's step must be one float32 or float64 on the CPU.");
  data_ = view.data;
  is_double_ = view.dtype == jit::Dtype::float64;
}

std::int64_t StepNumber::get() const {
  const double value =
      is_double_ ? *static_cast<const double*>(data_) : *static_cast<const float*>(data_);
  return value >= 0 && value < 0x1p53 ? static_cast<std::int64_t>(value) : -1;
}

bool StepNumber::can_count() const {
  const std::int64_t value = get();
  return value >= 0 && (is_double_ || value < kMostOfFloat);
}

void StepNumber::count() {
  if (is_double_)
    *static_cast<double*>(data_) += 1;
  else
    *static_cast<float*>(data_) += 1;
}

void StateWatch::clear() {
  state_.clear();
  inner_.clear();
  ends_.clear();
  index_.clear();
  addresses_.clear();
}

void StateWatch::add(const nb::object& tensor) {
  if (tensor.is_valid() && !tensor.is_none()) addresses_.add(tensor);
}

namespace {

// Calls the function with each key and value.
template <class Visit>
void for_each_entry(PyObject* dict, const Visit& visit) {
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &position, &key, &value)) visit(key, value);
}

}  // namespace

bool StateWatch::has_entries(PyObject* dict, const Entry* entries, std::size_t count) {
  if (PyDict_Size(dict) != static_cast<Py_ssize_t>(count)) return false;
  Py_ssize_t position = 0;
  PyObject *key, *value;
  for (std::size_t i = 0; i < count; ++i) {
    if (!PyDict_Next(dict, &position, &key, &value)) return false;
    if (key != entries[i].key.ptr() || value != entries[i].value.ptr()) return false;
  }
  return true;
}

void StateWatch::remember(const nb::dict& state) {
  addresses_.finish();
  state_.clear();
  inner_.clear();
  ends_.clear();
  index_.clear();
  for_each_entry(state.ptr(), [this](PyObject* key, PyObject* value) {
    state_.push_back({nb::borrow(key), nb::borrow(value)});
  });
  for (const Entry& entry : state_) {
    PyObject* const dict = entry.value.ptr();
    index_[dict] = ends_.size();
    if (PyDict_Check(dict))
      for_each_entry(dict, [this](PyObject* key, PyObject* value) {
        inner_.push_back({nb::borrow(key), nb::borrow(value)});
      });
    ends_.push_back(inner_.size());
  }
}

StateWatch::Entry& StateWatch::find(const nb::object& dict, const nb::object& key) {
  if (const auto found = index_.find(dict.ptr()); found != index_.end()) {
    const std::size_t at = found->second;
    for (std::size_t i = at == 0 ? 0 : ends_[at - 1]; i < ends_[at]; ++i)
      if (inner_[i].key.equal(key)) return inner_[i];
  }
  throw nb::key_error(("jitstep: the state has no entry " + nb::cast<std::string>(nb::repr(key)) +
                       " that the last step used. Call load_state_dict() to replace state.")
                          .c_str());
}

void StateWatch::set(const nb::object& dict, Entry& entry, const nb::object& value) {
  if (PyDict_SetItem(dict.ptr(), entry.key.ptr(), value.ptr()) != 0) throw nb::python_error();
  entry.value = value;
}

bool StateWatch::is_same(const nb::dict& state) const {
  if (!has_entries(state.ptr(), state_.data(), state_.size())) return false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < state_.size(); ++i) {
    PyObject* const dict = state_[i].value.ptr();
    if (i + kAhead < state_.size()) __builtin_prefetch(state_[i + kAhead].value.ptr());
    const std::size_t end = ends_[i];
    if (PyDict_Check(dict) && !has_entries(dict, inner_.data() + begin, end - begin)) return false;
    begin = end;
  }
  return addresses_.are_same();
}

int StateWatch::traverse(visitproc visit, void* arg) const {
  for (const auto* const entries : {&state_, &inner_})
    for (const Entry& entry : *entries) {
      Py_VISIT(entry.key.ptr());
      Py_VISIT(entry.value.ptr());
    }
  return addresses_.traverse(visit, arg);
}

}  // namespace jitstep::python
