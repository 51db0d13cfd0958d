// The addresses and forms of many tensors, which must be looked at in each step.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

#include "exchange.h"

namespace jitstep::python {

namespace nb = nanobind;

/// Tensors, and the address, dtype, sizes and strides of each in finish(). Reads them by libtorch's C interface for
/// compiled models (aoti_torch), which needs a tenth of the time of other ways. A torch without it is read as `read()`
/// does. With it, the tensors have another owner, which torch.utils.swap_tensors() refuses.
class Addresses {
 public:
  Addresses() = default;
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  ~Addresses() { clear(); }

  void clear();
  void add(nb::object tensor);
  /// Call it after the last add(). Throws a TypeError for a tensor that is not strided.
  void finish();
  /// True if all tensors lie as they lay in finish().
  bool are_same() const;
  int traverse(visitproc visit, void* arg) const;

 private:
  void make_handles();
  bool note_handles();
  bool are_handles_same() const;

  std::vector<nb::object> tensors_;
  std::vector<const void*> data_;
  std::vector<void*> handles_;       // empty: there is no C interface
  std::vector<std::int64_t> sizes_;  // by handle: dtype, number of dimensions, sizes and strides
  std::vector<Form> forms_;          // without handles
};

}  // namespace jitstep::python
