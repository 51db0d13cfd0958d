#include "addresses.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace jitstep::python {
namespace {

// Functions of torch/csrc/inductor/aoti_torch/c/shim.h, whose binary interface is stable. Python has loaded the
// library.
struct TorchFunctions {
  using GetData = std::int32_t (*)(void* tensor, void** data);
  using GetType = std::int32_t (*)(void* tensor, std::int32_t* dtype);
  using GetDims = std::int32_t (*)(void* tensor, std::int64_t* dims);
  using GetList = std::int32_t (*)(void* tensor, std::int64_t** of_dims);
  using Delete = std::int32_t (*)(void* tensor);

  void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  GetData get_data = find<GetData>("aoti_torch_get_data_ptr");
  GetType get_dtype = find<GetType>("aoti_torch_get_dtype");
  GetDims get_dims = find<GetDims>("aoti_torch_get_dim");
  GetList get_sizes = find<GetList>("aoti_torch_get_sizes");
  GetList get_strides = find<GetList>("aoti_torch_get_strides");
  Delete free = find<Delete>("aoti_torch_delete_tensor_object");

  template <class Function>
  Function find(const char* name) const {
    return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
  }
  bool found() const {
    return get_data != nullptr && get_dtype != nullptr && get_dims != nullptr &&
           get_sizes != nullptr && get_strides != nullptr && free != nullptr;
  }
};

const TorchFunctions& torch_functions() {
  static const TorchFunctions functions;
  return functions;
}

// torch's function that makes handles of tensors. None if it has none.
nb::object handle_maker() {
  const nb::object c = nb::module_::import_("torch").attr("_C");
  const nb::object aoti = nb::getattr(c, "_aoti", nb::none());
  return nb::getattr(aoti, "unsafe_alloc_void_ptrs_from_tensors", nb::none());
}

// In training, other work has filled the caches since the last step, and a tensor is in several lines of memory.
constexpr std::size_t kAhead = 8;

// A handle is an at::Tensor: the address of the tensor's data.
void prefetch(const void* next, const void* later) {
  __builtin_prefetch(later);
  const char* const tensor = *static_cast<const char* const*>(next);
  for (const int line : {0, 64, 128}) __builtin_prefetch(tensor + line);
}

// Sizes and strides are in the tensor. Scalars have none.
struct Handled {
  const void* data;
  std::int64_t dtype, dims;
  const std::int64_t *sizes, *strides;
};

bool read_handle(const TorchFunctions& torch, void* handle, Handled& found) {
  void* data = nullptr;
  std::int32_t dtype = 0;
  std::int64_t dims = 0, *sizes = nullptr, *strides = nullptr;
  if (torch.get_data(handle, &data) != 0 || torch.get_dtype(handle, &dtype) != 0 ||
      torch.get_dims(handle, &dims) != 0)
    return false;
  if (dims > 0 &&
      (torch.get_sizes(handle, &sizes) != 0 || torch.get_strides(handle, &strides) != 0))
    return false;
  found = {data, dtype, dims, sizes, strides};
  return true;
}

}  // namespace

void Addresses::clear() {
  for (void* const handle : std::exchange(handles_, {})) torch_functions().free(handle);
  tensors_.clear();
  data_.clear();
  sizes_.clear();
  forms_.clear();
}

void Addresses::add(nb::object tensor) { tensors_.push_back(std::move(tensor)); }

void Addresses::make_handles() {
  if (!uses_exchange() || !torch_functions().found()) return;
  const nb::object make = handle_maker();
  if (make.is_none()) return;
  nb::list all;
  for (const nb::object& tensor : tensors_) all.append(tensor);
  handles_.reserve(tensors_.size());
  for (const nb::handle handle : nb::borrow<nb::list>(make(all))) {
    void* const pointer = PyCapsule_GetPointer(handle.ptr(), PyCapsule_GetName(handle.ptr()));
    if (pointer == nullptr) throw nb::python_error();
    handles_.push_back(pointer);
  }
}

bool Addresses::note_handles() {
  Handled found;
  for (std::size_t i = 0; i < handles_.size(); ++i) {
    if (!read_handle(torch_functions(), handles_[i], found)) return false;
    data_[i] = found.data;
    sizes_.insert(sizes_.end(), {found.dtype, found.dims});
    sizes_.insert(sizes_.end(), found.sizes, found.sizes + found.dims);
    sizes_.insert(sizes_.end(), found.strides, found.strides + found.dims);
  }
  return true;
}

void Addresses::finish() {
  make_handles();
  data_.assign(tensors_.size(), nullptr);
  if (!handles_.empty() && note_handles()) return;
  for (void* const handle : std::exchange(handles_, {})) torch_functions().free(handle);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    data_[i] = read(tensors_[i]).data;
    forms_.emplace_back(tensors_[i]);
  }
}

bool Addresses::are_handles_same() const {
  const TorchFunctions& torch = torch_functions();
  const std::int64_t* known = sizes_.data();
  Handled found;
  for (std::size_t i = 0; i < handles_.size(); ++i) {
    if (i + 2 * kAhead < handles_.size()) prefetch(handles_[i + kAhead], handles_[i + 2 * kAhead]);
    if (!read_handle(torch, handles_[i], found) || found.data != data_[i]) return false;
    if (found.dtype != known[0] || found.dims != known[1]) return false;
    const std::int64_t* const sizes = known + 2;
    const std::int64_t* const strides = sizes + found.dims;
    if (!std::equal(sizes, strides, found.sizes)) return false;
    known = strides + found.dims;
    if (!std::equal(strides, known, found.strides)) return false;
  }
  return true;
}

bool Addresses::are_same() const {
  if (!handles_.empty()) return are_handles_same();
  char* data = nullptr;
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (!forms_[i].read(tensors_[i].ptr(), data) || data != data_[i]) return false;
  return true;
}

int Addresses::traverse(visitproc visit, void* arg) const {
  for (const nb::object& tensor : tensors_) Py_VISIT(tensor.ptr());
  return 0;
}

}  // namespace jitstep::python
