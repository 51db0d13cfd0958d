#include "cuda_host.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstring>

namespace jitstep::python {
namespace {

using namespace nb::literals;

// DLPack's numbers.
int device_type_of(const Device& device) {
  return device.is_cpu() ? nb::device::cpu::value : nb::device::cuda::value;
}

nb::object cuda() { return nb::module_::import_("torch.cuda"); }

// Owns a tensor, so that its memory lives as long as the shared_ptr. The last owner may be a thread without the GIL.
struct Owner {
  PyObject* tensor;

  void operator()(void*) const {
    if (!nb::is_alive()) return;  // the process ends
    const nb::gil_scoped_acquire acquire;
    Py_DECREF(tensor);
  }
};

class TorchCudaHost : public jit::CudaHost {
 public:
  explicit TorchCudaHost(const Device& device) : device_(device) {}

  void* stream() override {
    if (const auto stream = current_stream(device_)) return *stream;
    const nb::gil_scoped_acquire acquire;
    const nb::object stream = cuda().attr("current_stream")(device_.index);
    return PyLong_AsVoidPtr(nb::object(stream.attr("cuda_stream")).ptr());
  }

  std::shared_ptr<void> allocate(std::size_t bytes) override {
    const nb::gil_scoped_acquire acquire;
    const nb::object torch = nb::module_::import_("torch");
    nb::object tensor =
        torch.attr("empty")(bytes, "dtype"_a = torch.attr("uint8"), "device"_a = device_.name());
    void* const data = read(tensor).data;
    return {data, Owner{tensor.release().ptr()}};
  }

  void record_stream(const std::shared_ptr<void>& memory) override {
    const auto* const owner = std::get_deleter<Owner>(memory);
    if (owner == nullptr) return;
    const nb::gil_scoped_acquire acquire;
    nb::handle(owner->tensor).attr("record_stream")(cuda().attr("current_stream")(device_.index));
  }

 private:
  Device device_;
};

nb::object view_of(const Device& device, void* memory, const std::vector<std::int64_t>& sizes,
                   const std::vector<std::int64_t>& strides, nb::dlpack::dtype dtype) {
  const std::vector<std::size_t> shape(sizes.begin(), sizes.end());
  const nb::ndarray<nb::pytorch> view(memory, shape.size(), shape.data(), nb::handle(),
                                      strides.data(), dtype, device_type_of(device), device.index);
  return nb::cast(view, nb::rv_policy::reference);
}

nb::object bytes_at(const Device& device, void* memory, std::size_t bytes) {
  return view_of(device, memory, {static_cast<std::int64_t>(bytes)}, {1},
                 nb::dtype<std::uint8_t>());
}

// Neither the tensor that is read nor its memory changes.
void copy(const Device& to_device, void* to, const Device& from_device, const void* from,
          std::size_t bytes) {
  if (bytes == 0) return;
  if (to_device.is_cpu() && from_device.is_cpu()) {
    std::memcpy(to, from, bytes);
    return;
  }
  const nb::gil_scoped_acquire acquire;
  bytes_at(to_device, to, bytes)
      .attr("copy_")(bytes_at(from_device, const_cast<void*>(from), bytes));
}

}  // namespace

std::unique_ptr<jit::CudaHost> torch_cuda_host(const Device& device) {
  return std::make_unique<TorchCudaHost>(device);
}

nb::object tensor_at(const Device& device, void* memory, const std::vector<std::int64_t>& sizes,
                     const std::vector<std::int64_t>& strides, bool is_double) {
  return view_of(device, memory, sizes, strides,
                 is_double ? nb::dtype<double>() : nb::dtype<float>());
}

void wait_for_all(const Device& device) {
  if (device.is_cpu()) return;
  const nb::gil_scoped_acquire acquire;
  cuda().attr("synchronize")(device.index);
}

void download(const Device& device, void* to, const void* from, std::size_t bytes) {
  copy({}, to, device, from, bytes);
}

void upload(const Device& device, void* to, const void* from, std::size_t bytes) {
  copy(device, to, {}, from, bytes);
}

}  // namespace jitstep::python
