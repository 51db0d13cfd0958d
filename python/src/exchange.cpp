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

// Sets dtype and dimensions from those that torch has: see TensorView for scalars and complex numbers.
void finish(TensorView& view, std::uint8_t code, int bits) {
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

bool read_by_exchange(PyObject* tensor, TensorView& view) {
  DlTensor found;
  if (exchange->view(tensor, &found) != 0 || found.dims >= kMostDims) {
    PyErr_Clear();
    return false;
  }
  view.data = static_cast<char*>(found.data) + found.byte_offset;
  view.device = device_of(found.device);
  view.dims = found.dims;
  std::copy_n(found.shape, found.dims, view.sizes.begin());
  if (found.strides != nullptr) {
    std::copy_n(found.strides, found.dims, view.strides.begin());
  } else {  // row-major
    std::int64_t next = 1;
    for (int d = found.dims - 1; d >= 0; next *= view.sizes[d--]) view.strides[d] = next;
  }
  finish(view, found.dtype.code, found.dtype.bits);
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

TensorView read_by_attributes(nb::handle tensor) {
  TensorView view;
  const nb::tuple sizes(tensor.attr("shape")), strides(tensor.attr("stride")());
  const nb::object address = tensor.attr("data_ptr")();
  view.data = static_cast<char*>(PyLong_AsVoidPtr(address.ptr()));
  view.device = device_of(tensor);
  view.dims = static_cast<int>(std::min<std::size_t>(nb::len(sizes), kMostDims - 1));
  for (int d = 0; d < view.dims; ++d) {
    view.sizes[d] = nb::cast<std::int64_t>(sizes[d]);
    view.strides[d] = nb::cast<std::int64_t>(strides[d]);
  }
  finish(view, code_of(tensor), 8 * nb::cast<int>(tensor.attr("element_size")()));
  return view;
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

bool TensorView::has_shape(const std::vector<std::int64_t>& other_sizes,
                           const std::vector<std::int64_t>& other_strides) const {
  if (other_sizes.size() != static_cast<std::size_t>(dims)) return false;
  for (int d = 0; d < dims; ++d)
    if (sizes[d] != other_sizes[d] || (sizes[d] > 1 && strides[d] != other_strides[d]))
      return false;
  return true;
}

bool use_exchange(nb::object capsule) {
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

bool try_read(PyObject* tensor, TensorView& view) {
  if (exchange != nullptr) return read_by_exchange(tensor, view);
  try {
    view = read_by_attributes(tensor);
    return true;
  } catch (const nb::python_error&) {
    return false;
  }
}

TensorView read(nb::handle tensor) {
  TensorView view;
  if (try_read(tensor.ptr(), view)) return view;
  const auto type = nb::cast<std::string>(nb::str(nb::handle(tensor.type()).attr("__name__")));
  throw nb::type_error(("jitstep: cannot read a " + type +
                        ": it is not a strided tensor with memory. Use a dense tensor.")
                           .c_str());
}

}  // namespace jitstep::python
