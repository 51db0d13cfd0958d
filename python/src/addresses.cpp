#include "addresses.h"

#include <dlfcn.h>

#include <cstdint>
#include <utility>

#include "exchange.h"

namespace jitstep::python {
namespace {

// Functions of torch/csrc/inductor/aoti_torch/c/shim.h, whose binary interface is stable. Python has loaded the
// library.
struct TorchFunctions {
  using GetData = std::int32_t (*)(void* tensor, void** data);
  using Delete = std::int32_t (*)(void* tensor);

  void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  GetData get_data = find<GetData>("aoti_torch_get_data_ptr");
  Delete free = find<Delete>("aoti_torch_delete_tensor_object");

  template <class Function>
  Function find(const char* name) const {
    return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
  }
  bool found() const { return get_data != nullptr && free != nullptr; }
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

bool address_of(void* handle, const void*& data) {
  void* found = nullptr;
  if (torch_functions().get_data(handle, &found) != 0) return false;
  data = found;
  return true;
}

}  // namespace

void Addresses::clear() {
  for (void* const handle : std::exchange(handles_, {})) torch_functions().free(handle);
  tensors_.clear();
  data_.clear();
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

void Addresses::finish() {
  make_handles();
  data_.assign(tensors_.size(), nullptr);
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (handles_.empty() || !address_of(handles_[i], data_[i])) data_[i] = read(tensors_[i]).data;
}

bool Addresses::are_same() const {
  for (std::size_t i = 0; i < handles_.size(); ++i) {
    const void* data = nullptr;
    if (i + 2 * kAhead < handles_.size()) prefetch(handles_[i + kAhead], handles_[i + 2 * kAhead]);
    if (!address_of(handles_[i], data) || data != data_[i]) return false;
  }
  if (!handles_.empty()) return true;
  TensorView view;
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (!try_read(tensors_[i].ptr(), view) || view.data != data_[i]) return false;
  return true;
}

int Addresses::traverse(visitproc visit, void* arg) const {
  for (const nb::object& tensor : tensors_) Py_VISIT(tensor.ptr());
  return 0;
}

}  // namespace jitstep::python
