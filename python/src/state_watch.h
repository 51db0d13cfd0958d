// What a step found in the optimizer's state: the same objects at the same addresses need no new tables.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "addresses.h"

namespace jitstep::python {

namespace nb = nanobind;

/// The tensor that counts the steps of a parameter, a float or double in host memory.
class StepNumber {
 public:
  static constexpr std::int64_t kMostOfFloat = 1 << 24;  // larger odd numbers are no floats

  StepNumber() = default;
  /// Throws a TypeError for another tensor.
  explicit StepNumber(nb::object tensor);

  /// -1 if it is no number of steps.
  std::int64_t get() const;
  /// False if adding 1 would not change it.
  bool can_count() const;
  void count();
  const void* data() const { return data_; }
  const nb::object& tensor() const { return tensor_; }

 private:
  nb::object tensor_;
  void* data_ = nullptr;
  bool is_double_ = false;
};

/// Remembers a dict of dicts, and the addresses of tensors.
class StateWatch {
 public:
  void clear();
  /// Adds a tensor that must stay where it is. None is ignored.
  void add(const nb::object& tensor);
  /// Remembers where the tensors lie, and the keys and values of the state and of the dicts in it.
  void remember(const nb::dict& state);
  /// An entry of a dict in the state. Valid until clear() or remember().
  struct Entry {
    nb::object key, value;
  };
  /// The remembered entry. Throws a KeyError if there is none.
  Entry& find(const nb::object& dict, const nb::object& key);
  /// Sets the entry of the dict, and expects the new value from now on.
  static void set(const nb::object& dict, Entry& entry, const nb::object& value);
  /// True if nothing has changed.
  bool is_same(const nb::dict& state) const;
  int traverse(visitproc visit, void* arg) const;

 private:
  static bool has_entries(PyObject* dict, const Entry* entries, std::size_t count);

  std::vector<Entry> state_;
  std::vector<Entry> inner_;       // of all dicts in the state, one after the other
  std::vector<std::size_t> ends_;  // in inner_, by dict
  std::unordered_map<PyObject*, std::size_t> index_;  // of inner dicts
  Addresses addresses_;
};

/// An entry of a parameter's state that shows the buffer of auxiliary state that was written last.
struct NewestView {
  nb::object dict, key;
  std::array<nb::object, 2> buffers;
  StateWatch::Entry* entry = nullptr;
};

}  // namespace jitstep::python
