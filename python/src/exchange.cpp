#include "exchange.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <string>

namespace jitstep::python {
namespace {

// The structures of dlpack.h 1.3 (Apache-2.0) that are needed to read a tensor.
struct DlDevice {
  std::int32_t type, id;
};
struct DlType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  std::int32_t dims;
  DlType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DlExchange {
  struct {
    std::uint32_t major, minor;
  } version;
  void* previous;
  void* allocate;
  void* managed_from_object;
  void* managed_to_object;
  int (*view)(void* object, DlTensor* out);  // null if the producer has none
  int (*current_stream)(std::int32_t device_type, std::int32_t device_id, void** out);
};
constexpr std::int32_t kDlCpu = 1, kDlCuda = 2;
constexpr std::uint8_t kDlFloat = 2, kDlBfloat = 4, kDlComplex = 5;

const DlExchange* exchange = nullptr;

Device device_of(const DlDevice& device) {
  if (device.type == kDlCpu) return {};
  return {device.type == kDlCuda ? Device::Type::cuda : Device::Type::other, device.id};
}

std::optional<jit::Dtype> dtype_of(std::uint8_t code, int bits) {
  if (code == kDlBfloat && bits == 16) return jit::Dtype::bfloat16;
  if (code != kDlFloat) return {};
  if (bits == 64) return jit::Dtype::float64;
  if (bits == 32) return jit::Dtype::float32;
  if (bits == 16) return jit::Dtype::float16;
  return {};
}

using Dims = std::array<std::int64_t, kMostDims>;

// A tensor as torch describes it. `sizes` and `strides` may point into the tensor.
struct Found {
  char* data;
  Device device;
  std::uint8_t code;
  int bits, dims;
  const std::int64_t *sizes, *strides;
};

// Memory for sizes and strides that the tensor does not have.
struct OwnDims {
  Dims sizes, strides;
};

bool find_by_exchange(PyObject* tensor, Found& found, OwnDims& own) {
  DlTensor view;
  if (exchange->view(tensor, &view) != 0 || view.dims >= kMostDims) {
    PyErr_Clear();
    return false;
  }
  found = {static_cast<char*>(view.data) + view.byte_offset,
           device_of(view.device),
           view.dtype.code,
           view.dtype.bits,
           view.dims,
           view.shape,
           view.strides};
  if (view.strides != nullptr) return true;
  std::int64_t next = 1;  // row-major
  for (int d = view.dims - 1; d >= 0; next *= view.shape[d--])
    own.strides[static_cast<std::size_t>(d)] = next;
  found.strides = own.strides.data();
  return true;
}

struct NamedType {
  const char* name;
  std::uint8_t code;
};
constexpr NamedType kNamedTypes[] = {
    {"torch.float32", kDlFloat},     {"torch.float64", kDlFloat},
    {"torch.float16", kDlFloat},     {"torch.bfloat16", kDlBfloat},
    {"torch.complex64", kDlComplex}, {"torch.complex128", kDlComplex}};

std::uint8_t code_of(nb::handle tensor) {
  const nb::object dtype = tensor.attr("dtype");
  const std::string name = nb::str(nb::handle(dtype)).c_str();
  for (const NamedType& one : kNamedTypes)
    if (name == one.name) return one.code;
  return 0;
}

Device device_of(nb::handle tensor) {
  const nb::object device = tensor.attr("device"), index = device.attr("index");
  const auto type = nb::cast<std::string>(device.attr("type"));
  if (type == "cpu") return {};
  return {type == "cuda" ? Device::Type::cuda : Device::Type::other,
          index.is_none() ? 0 : nb::cast<int>(index)};
}

void find_by_attributes(nb::handle tensor, Found& found, OwnDims& own) {
  const nb::tuple sizes(tensor.attr("shape")), strides(tensor.attr("stride")());
  const nb::object address = tensor.attr("data_ptr")();
  const std::size_t dims = std::min<std::size_t>(nb::len(sizes), kMostDims - 1);
  for (std::size_t d = 0; d < dims; ++d) {
    own.sizes[d] = nb::cast<std::int64_t>(sizes[d]);
    own.strides[d] = nb::cast<std::int64_t>(strides[d]);
  }
  found = {static_cast<char*>(PyLong_AsVoidPtr(address.ptr())),
           device_of(tensor),
           code_of(tensor),
           8 * nb::cast<int>(tensor.attr("element_size")()),
           static_cast<int>(dims),
           own.sizes.data(),
           own.strides.data()};
}

// False, without a Python error, if the tensor is not strided.
bool find(PyObject* tensor, Found& found, OwnDims& own) {
  if (exchange != nullptr) return find_by_exchange(tensor, found, own);
  try {
    find_by_attributes(tensor, found, own);
    return true;
  } catch (const nb::python_error&) {
    return false;
  }
}

// The tensor as kernels see it: see TensorView for scalars and complex numbers.
void set_view(TensorView& view, const Found& found) {
  view.data = found.data;
  view.device = found.device;
  view.dims = found.dims;
  std::copy_n(found.sizes, found.dims, view.sizes.begin());
  std::copy_n(found.strides, found.dims, view.strides.begin());
  std::uint8_t code = found.code;
  int bits = found.bits;
  view.is_complex = code == kDlComplex;
  if (view.is_complex) {
    for (int d = 0; d < view.dims; ++d) view.strides[d] *= 2;
    view.sizes[view.dims] = 2;
    view.strides[view.dims++] = 1;
    code = kDlFloat, bits /= 2;
  }
  if (view.dims == 0) view.sizes[0] = view.strides[0] = view.dims = 1;
  view.dtype = dtype_of(code, bits);
  view.bytes = bits / 8;
}

[[noreturn]] void throw_type_error(nb::handle tensor) {
  const auto type = nb::cast<std::string>(nb::str(nb::handle(tensor.type()).attr("__name__")));
  throw nb::type_error(("jitstep: cannot read a " + type +
                        ": it is not a strided tensor with memory. Use a dense tensor.")
                           .c_str());
}

}  // namespace

std::string Device::name() const {
  if (is_cpu()) return "cpu";
  return (type == Type::cuda ? "cuda:" : "device ") + std::to_string(index);
}

std::int64_t TensorView::elements() const {
  std::int64_t product = 1;
  for (int d = 0; d < dims; ++d) product *= sizes[d];
  return product;
}

jit::Shape TensorView::shape() const {
  return {{sizes.begin(), sizes.begin() + dims}, {strides.begin(), strides.begin() + dims}};
}

Form::Form(nb::handle tensor) {
  Found found;
  OwnDims own;
  if (!find(tensor.ptr(), found, own)) throw_type_error(tensor);
  device_ = found.device;
  code_ = found.code;
  bits_ = found.bits;
  may_be_lazy_ = true;
  for (int d = 0; d < found.dims; ++d) {
    const bool several = found.sizes[d] > 1;
    sizes_.push_back(found.sizes[d]);
    strides_.push_back(several ? found.strides[d] : 0);
    if (several && found.strides[d] == 1) may_be_lazy_ = false;
  }
  may_be_lazy_ |= is_complex();
}

bool Form::is_complex() const { return code_ == kDlComplex; }

bool Form::read(PyObject* tensor, char*& data) const {
  Found found;
  OwnDims own;
  if (!find(tensor, found, own) || found.device != device_ || found.code != code_ ||
      found.bits != bits_ || static_cast<std::size_t>(found.dims) != sizes_.size())
    return false;
  for (std::size_t d = 0; d < sizes_.size(); ++d)
    if (found.sizes[d] != sizes_[d] || (sizes_[d] > 1 && found.strides[d] != strides_[d]))
      return false;
  data = found.data;
  return true;
}

bool use_exchange(const nb::object& capsule) {
  exchange = nullptr;
  if (capsule.is_none()) return false;
  const auto* const found =
      static_cast<const DlExchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (found == nullptr) throw nb::python_error();
  if (found->version.major != 1 || found->view == nullptr) return false;
  exchange = found;
  return true;
}

std::optional<void*> current_stream(const Device& device) {
  void* stream = nullptr;
  if (exchange == nullptr || exchange->current_stream == nullptr ||
      exchange->current_stream(kDlCuda, device.index, &stream) != 0)
    return {};
  return stream;
}

bool uses_exchange() { return exchange != nullptr; }

bool try_read(PyObject* tensor, TensorView& view) {
  Found found;
  OwnDims own;
  if (!find(tensor, found, own)) return false;
  set_view(view, found);
  return true;
}

TensorView read(nb::handle tensor) {
  TensorView view;
  if (!try_read(tensor.ptr(), view)) throw_type_error(tensor);
  return view;
}

}  // namespace jitstep::python
