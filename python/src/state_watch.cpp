#include "state_watch.h"

#include "exchange.h"

namespace jitstep::python {

StepNumber::StepNumber(nb::object tensor) : tensor_(std::move(tensor)) {
  const TensorView view = read(tensor_);
  const bool is_float = view.dtype == jit::Dtype::float32 || view.dtype == jit::Dtype::float64;
  if (!is_float || !view.device.is_cpu() || view.elements() != 1)
    throw nb::type_error("jitstep: the state's step must be one float32 or float64 on the CPU.");
  data_ = view.data;
  is_double_ = view.dtype == jit::Dtype::float64;
}

std::int64_t StepNumber::get() const {
  if (is_double_) return static_cast<std::int64_t>(*static_cast<const double*>(data_));
  return static_cast<std::int64_t>(*static_cast<const float*>(data_));
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
  index_.clear();
  places_.clear();
}

void StateWatch::add(const nb::object& tensor) {
  if (tensor.is_valid() && !tensor.is_none()) places_.push_back({tensor, read(tensor).data});
}

StateWatch::Entries StateWatch::entries_of(PyObject* dict) {
  Entries entries;
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &position, &key, &value))
    entries.push_back({nb::borrow(key), nb::borrow(value)});
  return entries;
}

bool StateWatch::has_entries(PyObject* dict, const Entries& entries) {
  if (PyDict_Size(dict) != static_cast<Py_ssize_t>(entries.size())) return false;
  Py_ssize_t position = 0;
  PyObject *key, *value;
  for (const Entry& entry : entries) {
    if (!PyDict_Next(dict, &position, &key, &value)) return false;
    if (key != entry.key.ptr() || value != entry.value.ptr()) return false;
  }
  return true;
}

void StateWatch::remember(nb::dict state) {
  state_ = entries_of(state.ptr());
  inner_.clear();
  index_.clear();
  for (const Entry& entry : state_) {
    index_[entry.value.ptr()] = inner_.size();
    inner_.push_back(PyDict_Check(entry.value.ptr()) ? entries_of(entry.value.ptr()) : Entries{});
  }
}

StateWatch::Entry& StateWatch::find(const nb::object& dict, const nb::object& key) {
  if (const auto found = index_.find(dict.ptr()); found != index_.end())
    for (Entry& entry : inner_[found->second])
      if (entry.key.equal(key)) return entry;
  throw nb::key_error("jitstep: the state has no such entry");
}

void StateWatch::set(const nb::object& dict, Entry& entry, const nb::object& value) {
  if (PyDict_SetItem(dict.ptr(), entry.key.ptr(), value.ptr()) != 0) throw nb::python_error();
  entry.value = value;
}

bool StateWatch::is_same(nb::dict state) const {
  if (!has_entries(state.ptr(), state_)) return false;
  for (std::size_t i = 0; i < state_.size(); ++i) {
    PyObject* const inner = state_[i].value.ptr();
    if (PyDict_Check(inner) && !has_entries(inner, inner_[i])) return false;
  }
  TensorView view;
  for (const Place& place : places_)
    if (!try_read(place.tensor.ptr(), view) || view.data != place.data) return false;
  return true;
}

int StateWatch::traverse(visitproc visit, void* arg) const {
  for (const Entry& entry : state_) {
    Py_VISIT(entry.key.ptr());
    Py_VISIT(entry.value.ptr());
  }
  for (const Place& place : places_) Py_VISIT(place.tensor.ptr());
  return 0;
}

}  // namespace jitstep::python
