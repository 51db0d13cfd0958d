#include "support/fake_driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "jit/base/text.h"

namespace jitstep::support {

using jit::str_cat;

namespace {

constexpr int kInvalidValue = 1, kInvalidContext = 201, kInvalidHandle = 400, kNotFound = 500;
// Global, because plain functions such as the driver's cannot reach anything else.
FakeDriver* driver = nullptr;

}  // namespace

// ---- the table ----------------------------------------------------------------------------------

struct FakeFunctions {
  using D = FakeDriver;

  static int attribute(int* value, int which, int device) {
    if (const int code = driver->did("cuDeviceGetAttribute", str_cat(which))) return code;
    const int sm = driver->sm[static_cast<std::size_t>(device)];
    *value = which == 75   ? sm / 10
             : which == 76 ? sm % 10
             : which == 16 ? driver->multiprocessors
             : which == 38 ? 50 << 20
                           : -1;
    return *value < 0 ? kInvalidValue : 0;
  }
  static int retain(void** context, int device) {
    if (const int code = driver->did("cuDevicePrimaryCtxRetain", str_cat(device))) return code;
    return *context = &driver->devices_[static_cast<std::size_t>(device)], 0;
  }
  static int get_current(void** context) {
    if (const int code = driver->did("cuCtxGetCurrent")) return code;
    return *context = driver->contexts_.empty() ? nullptr : driver->contexts_.back(), 0;
  }
  static int push(void* context) {
    auto* const device = static_cast<D::Device*>(context);
    if (const int code = driver->did("cuCtxPushCurrent", str_cat(device->ordinal))) return code;
    return driver->contexts_.push_back(device), 0;
  }
  // A pop that reports an error of earlier work has still restored the context.
  static int pop(void** context) {
    if (driver->contexts_.empty()) return kInvalidContext;
    *context = driver->contexts_.back();
    driver->contexts_.pop_back();
    return driver->did("cuCtxPopCurrent");
  }
  static int load(void** module, const void* image) {
    if (const int code = driver->did("cuModuleLoadData")) return code;
    if (driver->contexts_.empty()) return kInvalidContext;
    driver->last_image.assign(static_cast<const char*>(image), 4);
    driver->modules_.push_back({driver->contexts_.back()});
    return *module = &driver->modules_.back(), 0;
  }
  static int unload(void* handle) {
    auto* const module = static_cast<D::Module*>(handle);
    const int code = driver->did("cuModuleUnload");
    if (driver->contexts_.empty() || driver->contexts_.back() != module->device)
      return kInvalidContext;
    if (!module->loaded) return kInvalidHandle;
    module->loaded = false;
    return code;
  }
  static int get_function(void** function, void* handle, const char* name) {
    if (const int code = driver->did("cuModuleGetFunction", name)) return code;
    auto* const module = static_cast<D::Module*>(handle);
    if (!module->loaded) return kInvalidHandle;
    if (std::string_view(name) == "missing") return kNotFound;
    driver->functions_.push_back({module, name});
    return *function = &driver->functions_.back(), 0;
  }
  static int func_load(void* handle) {
    return driver->did("cuFuncLoad", static_cast<D::Function*>(handle)->name);
  }

  static int launch(void* handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                    unsigned bz, unsigned shared, void* on, void** params, void** residual) {
    const auto& function = *static_cast<D::Function*>(handle);
    D::Stream* const stream = driver->stream_of(on);
    if (!stream) return kInvalidHandle;
    if (const int code = driver->did(
            "cuLaunchKernel", str_cat(function.name, " ", gx, "x", bx, " stream ", stream->number)))
      return code;
    if (driver->contexts_.empty() || driver->contexts_.back() != function.module->device ||
        stream->device != function.module->device)
      return kInvalidContext;
    if (gx == 0 || gy != 1 || gz != 1 || bx == 0 || bx > 1024 || by != 1 || bz != 1 ||
        shared != 0 || residual || !function.module->loaded)
      return kInvalidValue;
    FakeRun run;
    run.entry = function.name;
    run.stream = stream->number;
    run.grid = gx;
    run.block = bx;
    std::memcpy(&run.args, params[0], sizeof run.args);  // the driver takes arguments by value
    stream->queue.push_back([run] { return driver->run(run), true; });
    return 0;
  }
  static int copy(unsigned long long to, const void* from, std::size_t bytes, void* on) {
    D::Stream* const stream = driver->stream_of(on);
    if (!stream) return kInvalidHandle;
    if (const int code =
            driver->did("cuMemcpyHtoDAsync", str_cat(bytes, " bytes stream ", stream->number)))
      return code;
    auto* const target = reinterpret_cast<std::byte*>(to);
    if (!driver->owns(target, bytes)) return kInvalidValue;
    driver->copies.emplace_back(bytes, stream->number);
    const auto* const source = static_cast<const std::byte*>(from);
    // Copies at once, as the driver does with small copies from pageable memory.
    stream->queue.push_back([target, staged = std::vector<std::byte>(source, source + bytes)] {
      std::memcpy(target, staged.data(), staged.size());
      return true;
    });
    return 0;
  }

  static int is_capturing(void* on, int* status) {
    D::Stream* const stream = driver->stream_of(on);
    if (!stream) return kInvalidHandle;
    if (const int code = driver->did("cuStreamIsCapturing", str_cat("stream ", stream->number)))
      return code;
    return *status = stream->capture, 0;
  }
  static int wait(void* on, void* handle, unsigned flags) {
    D::Stream* const stream = driver->stream_of(on);
    const auto* const event = static_cast<D::Event*>(handle);
    if (!stream || flags != 0 || !event->alive) return kInvalidHandle;
    if (const int code = driver->did("cuStreamWaitEvent", str_cat("stream ", stream->number)))
      return code;
    if (event->reached) stream->queue.push_back([reached = event->reached] { return *reached; });
    return 0;
  }
  static int create_event(void** event, unsigned flags) {
    if (const int code = driver->did("cuEventCreate", str_cat(flags))) return code;
    if (driver->contexts_.empty()) return kInvalidContext;
    driver->events_.push_back({driver->contexts_.back()});
    return *event = &driver->events_.back(), 0;
  }
  static int record(void* handle, void* on) {
    D::Stream* const stream = driver->stream_of(on);
    auto* const event = static_cast<D::Event*>(handle);
    if (!stream || !event->alive || event->device != stream->device) return kInvalidHandle;
    if (const int code = driver->did("cuEventRecord", str_cat("stream ", stream->number)))
      return code;
    return event->reached = driver->record(*stream), 0;
  }
  static int destroy_event(void* handle) {
    auto* const event = static_cast<D::Event*>(handle);
    const int code = driver->did("cuEventDestroy");
    if (!event->alive) return kInvalidHandle;
    event->alive = false;
    return code;
  }
};

jit::CudaApi FakeDriver::api() {
  using F = FakeFunctions;
  jit::CudaApi api;
  api.cuInit = [](unsigned) { return driver->did("cuInit"); };
  api.cuDriverGetVersion = [](int* answer) {
    *answer = driver->version;
    return driver->did("cuDriverGetVersion");
  };
  // As in the driver, every known code has its own name.
  api.cuGetErrorName = [](int code, const char** name) {
    static std::map<int, std::string> names;
    if (code < 0 || code > 999) return kInvalidValue;
    *name = names.try_emplace(code, str_cat("CUDA_ERROR_FAKE_", code)).first->second.c_str();
    return 0;
  };
  api.cuGetErrorString = [](int code, const char** sentence) {
    return *sentence = "the driver's own words", code > 999 ? kInvalidValue : 0;
  };
  api.cuDeviceGetCount = [](int* count) {
    *count = static_cast<int>(driver->devices_.size());
    return driver->did("cuDeviceGetCount");
  };
  api.cuDeviceGet = [](int* device, int ordinal) {
    *device = ordinal;
    const int code = driver->did("cuDeviceGet", str_cat(ordinal));
    return code == 0 && ordinal >= static_cast<int>(driver->devices_.size()) ? 101 : code;
  };
  api.cuDeviceGetAttribute = F::attribute;
  api.cuDevicePrimaryCtxRetain = F::retain;
  api.cuCtxGetCurrent = F::get_current;
  api.cuCtxPushCurrent = F::push;
  api.cuCtxPopCurrent = F::pop;
  api.cuModuleLoadData = F::load;
  api.cuModuleUnload = F::unload;
  api.cuModuleGetFunction = F::get_function;
  api.cuLaunchKernel = F::launch;
  api.cuMemcpyHtoDAsync = F::copy;
  api.cuStreamIsCapturing = F::is_capturing;
  api.cuStreamWaitEvent = F::wait;
  api.cuEventCreate = F::create_event;
  api.cuEventRecord = F::record;
  api.cuEventDestroy = F::destroy_event;
  api.cuFuncLoad = F::func_load;
  return api;
}

const std::vector<std::string>& FakeDriver::function_names() {
  static const std::vector<std::string> names = {"cuInit",
                                                 "cuDriverGetVersion",
                                                 "cuDeviceGetCount",
                                                 "cuDeviceGet",
                                                 "cuDeviceGetAttribute",
                                                 "cuDevicePrimaryCtxRetain",
                                                 "cuCtxGetCurrent",
                                                 "cuCtxPushCurrent",
                                                 "cuCtxPopCurrent",
                                                 "cuModuleLoadData",
                                                 "cuModuleUnload",
                                                 "cuModuleGetFunction",
                                                 "cuLaunchKernel",
                                                 "cuMemcpyHtoDAsync",
                                                 "cuStreamIsCapturing",
                                                 "cuStreamWaitEvent",
                                                 "cuEventCreate",
                                                 "cuEventRecord",
                                                 "cuEventDestroy",
                                                 "cuFuncLoad"};
  return names;
}

// ---- the fake -----------------------------------------------------------------------------------

FakeDriver::FakeDriver(int devices) {
  EXPECT_EQ(driver, nullptr) << "one fake at a time";
  driver = this;
  for (int i = 0; i < devices; ++i) devices_.push_back({i});
  for (int i = 0; i < devices; ++i) new_stream(i);
}

FakeDriver::~FakeDriver() { driver = nullptr; }

int FakeDriver::did(const std::string& name, const std::string& arguments) {
  calls.push_back(arguments.empty() ? name : name + " " + arguments);
  const auto found = failing_.find(name);
  if (found == failing_.end()) return 0;
  Failure& failure = found->second;
  if (failure.spared-- > 0) return 0;
  return failure.times-- > 0 ? failure.code : 0;
}

std::vector<std::string> FakeDriver::calls_of(const std::string& name) const {
  std::vector<std::string> found;
  for (const std::string& call : calls)
    if (call == name || call.starts_with(name + " ")) found.push_back(call);
  return found;
}

void FakeDriver::clear() {
  calls.clear();
  copies.clear();
  runs.clear();
}

void FakeDriver::fail(const std::string& name, int code, int spared, int times) {
  failing_[name] = {code, spared, times};
}

void FakeDriver::set_current_context(int device) {
  contexts_.clear();
  if (device >= 0) contexts_.push_back(&devices_[static_cast<std::size_t>(device)]);
}

int FakeDriver::loaded_modules() const {
  return static_cast<int>(std::count_if(modules_.begin(), modules_.end(),
                                        [](const Module& module) { return module.loaded; }));
}

int FakeDriver::live_events() const {
  return static_cast<int>(std::count_if(events_.begin(), events_.end(),
                                        [](const Event& event) { return event.alive; }));
}

std::vector<std::byte> fake_cubin(int sm) {
  std::vector<std::byte> image(200);
  std::memcpy(image.data(), "\177ELF", 4);
  image[18] = std::byte{190};  // EM_CUDA
  image[49] = std::byte(sm);   // in the flags
  return image;
}

}  // namespace jitstep::support
