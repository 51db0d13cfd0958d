// Where a tensor of torch lies, without linking torch: by DLPack's C exchange API, or by the tensor's attributes.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "jitstep/jit/layout.h"
#include "jitstep/jit/value.h"

namespace jitstep::python {

namespace nb = nanobind;

/// The most dimensions that torch supports, and one more for complex numbers.
inline constexpr int kMostDims = 65;

/// A device of torch. The CPU has index 0.
struct Device {
  enum class Type { cpu, cuda, other };
  Type type = Type::cpu;
  int index = 0;

  bool is_cpu() const { return type == Type::cpu; }
  /// True if kernels can be compiled for it.
  bool is_supported() const { return type != Type::other; }
  /// "cpu" or "cuda:1", as torch names it.
  std::string name() const;
  auto operator<=>(const Device&) const = default;
};

/// A strided tensor. A scalar is a vector with one element. A complex tensor is a real one with another dimension of
/// size 2. Strides are in elements.
struct TensorView {
  char* data;
  Device device;
  bool is_complex;
  std::optional<jit::Dtype> dtype;  // none: jitstep does not step this dtype
  int bytes;                        // of one element
  int dims;
  std::array<std::int64_t, kMostDims> sizes, strides;

  /// The product of the sizes.
  std::int64_t elements() const;
  jit::Shape shape() const;
};

/// All of a strided tensor but its address: device, dtype, sizes, and strides of dimensions with several elements.
class Form {
 public:
  /// The form of this tensor. Throws a TypeError for another object or layout.
  explicit Form(nb::handle tensor);

  /// Sets the address of a tensor of this form. Returns false, without a Python error, for another form.
  bool read(PyObject* tensor, char*& data) const;
  /// True if torch may not have applied a conjugation or negation to the memory. A negation is always that of imaginary
  /// parts, which are not next to each other.
  bool may_be_lazy() const { return may_be_lazy_; }
  bool is_complex() const;
  bool operator==(const Form&) const = default;

 private:
  Device device_;
  std::uint8_t code_ = 0;  // of dlpack.h
  int bits_ = 0;
  bool may_be_lazy_ = false;
  std::vector<std::int64_t> sizes_,
      strides_;  // those of torch, and strides of 0 for single elements
};

/// Reads tensors by this capsule, torch.Tensor.__dlpack_c_exchange_api__. None, or a capsule of another major version,
/// selects the tensors' attributes, which takes longer. Returns true if the capsule is used.
bool use_exchange(const nb::object& capsule);

/// True if tensors are read by a capsule.
bool uses_exchange();

/// Fills `view`. Returns false, without a Python error, if the tensor is not strided.
bool try_read(PyObject* tensor, TensorView& view);

/// The same. Throws a TypeError for another object or layout.
TensorView read(nb::handle tensor);

/// The stream of this thread on which torch works with a GPU, a CUstream. Does not need the GIL. None without a capsule
/// that can tell: ask torch then.
std::optional<void*> current_stream(const Device& device);

}  // namespace jitstep::python
