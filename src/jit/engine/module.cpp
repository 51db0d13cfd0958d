#include "jit/engine/module.h"

#include <dlfcn.h>
#include <fcntl.h>

#include <cstring>

#include "jit/base/file_io.h"
#include "jit/base/scratch.h"
#include "jit/base/text.h"
#include "jit/compiler/image.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

// Note: glibc identifies loaded objects by path. The memory file stays open while its object is loaded, so that
// "/proc/self/fd/N" never means another one.
class HostModule : public Module {
 public:
  HostModule(void* handle, std::string name, FileHandle file, std::string path)
      : handle_(handle), name_(std::move(name)), file_(std::move(file)), path_(std::move(path)) {}

  ~HostModule() override {
    dlclose(handle_);
    if (!file_) return;
    // An object with unique symbols is never unloaded, so its file must stay open.
    if (void* still = dlopen(path_.c_str(), RTLD_NOLOAD | RTLD_LAZY)) {
      dlclose(still);
      file_.release();
    }
  }

  void* symbol(const std::string& entry) const override {
    if (void* found = dlsym(handle_, entry.c_str())) return found;
    throw Error(str_cat("the binary of ", name_, " has no entry ", entry,
                        ". Declare it extern \"C\" with default visibility."));
  }

 private:
  void* handle_;
  std::string name_;
  FileHandle file_;
  std::string path_;
};

class CudaModule : public Module {
 public:
  CudaModule(const CudaDriver& driver, void* context, void* module)
      : driver_(driver), context_(context), module_(module) {}
  ~CudaModule() override { driver_.unload_module(context_, module_); }

  void* symbol(const std::string& name) const override {
    return driver_.function(context_, module_, name);
  }
  CudaEntry cuda_entry(const std::string& name) const override {
    return {&driver_, context_, symbol(name)};
  }

 private:
  const CudaDriver& driver_;
  void* context_;
  void* module_;
};

// Why an image could not be loaded, from one or several attempts.
struct Failure {
  std::string what;
  bool of_image = false;  // else: memory, disk space, or noexec folders

  void add(const Failure& other) {
    what += (what.empty() ? "" : "; ") + other.what;
    of_image = of_image || other.of_image;
  }

  [[noreturn]] void fail(const std::string& name) const {
    const std::string message = str_cat("loading the binary of ", name, " failed: ", what);
    if (of_image) throw ImageError(message);
    throw Error(str_cat(message,
                        ". Free memory, close files, or set TMPDIR to a folder with free space "
                        "that is not mounted noexec."));
  }
};

// dlerror(), classified: failures to read or map the file are not the image's.
Failure loader_failure() {
  const std::string words = dlerror();
  for (const char* phrase : {"cannot open shared object", "failed to map segment",
                             "Cannot allocate memory", "cannot allocate"})
    if (words.find(phrase) != words.npos) return {words, false};
  return {words, true};
}

std::unique_ptr<Module> load_from_memory(std::span<const std::byte> image, const std::string& name,
                                         Failure& failure) {
  FileHandle file = memory_file("jitstep", image, true);
  if (!file) {
    failure.add({str_cat("memfd_create: ", failure_advice(errno))});
    return nullptr;
  }
  const std::string path = str_cat("/proc/self/fd/", file.get());
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    failure.add(loader_failure());
    return nullptr;
  }
  return std::make_unique<HostModule>(handle, name, std::move(file), path);
}

// The random folder name distinguishes two objects. The file may be deleted once it is mapped.
std::unique_ptr<Module> load_from_folder(std::span<const std::byte> image, const std::string& name,
                                         const std::string& parent, Failure& failure) {
  const PrivateFolder folder({parent});
  const std::string path = folder.path() + "/kernel.so";
  const FileHandle file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRWXU));
  if (!file || !write_all(file.get(), image)) {
    failure.add({str_cat(path, ": ", std::strerror(errno))});
    return nullptr;
  }
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    failure.add(loader_failure());
    return nullptr;
  }
  return std::make_unique<HostModule>(handle, name, FileHandle(), path);
}

std::unique_ptr<Module> load_from_folders(std::span<const std::byte> image, const std::string& name,
                                          const std::vector<std::string>& scratch,
                                          Failure& failure) {
  for (const std::string& parent : scratch) {
    try {
      if (auto module = load_from_folder(image, name, parent, failure)) return module;
    } catch (const Error& error) {
      failure.add({error.what()});
    }
  }
  return nullptr;
}

// The driver's codes for an unusable image: INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX, UNSUPPORTED_PTX_VERSION,
// INVALID_SOURCE. Other codes, such as out of memory, have other causes.
bool is_image_failure(const CudaError& error) {
  const int code = error.code();
  if (error.call() != "cuModuleLoadData") return false;
  return code == 200 || code == 209 || code == 218 || code == 222 || code == 300;
}

}  // namespace

CudaEntry Module::cuda_entry(const std::string& name) const {
  throw Error(str_cat("cannot launch ", name, " on a GPU: it is in a host binary"));
}

std::unique_ptr<Module> load_host_module(std::span<const std::byte> image, const std::string& name,
                                         const std::vector<std::string>& scratch) {
  Failure failure;
  if (auto module = load_from_memory(image, name, failure)) return module;
  if (auto module = load_from_folders(image, name, scratch, failure)) return module;
  failure.fail(name);
}

std::unique_ptr<Module> load_host_module_from_folder(std::span<const std::byte> image,
                                                     const std::string& name,
                                                     const std::vector<std::string>& scratch) {
  Failure failure;
  if (auto module = load_from_folders(image, name, scratch, failure)) return module;
  failure.fail(name);
}

std::unique_ptr<Module> load_cuda_module(std::span<const std::byte> image, const std::string& name,
                                         CudaDriver& driver, int device) {
  void* context = driver.primary_context(device);
  try {
    void* module = driver.load_module(context, image.data(), name);
    return std::make_unique<CudaModule>(driver, context, module);
  } catch (const CudaError& error) {
    if (!is_image_failure(error)) throw;
    const int version = driver.version();
    throw ImageError(str_cat(error.what(), " The driver is for CUDA ", version / 1000, ".",
                             version % 1000 / 10, "."));
  }
}

void check_image(std::span<const std::byte> image, const std::string& name, const Target& target) {
  const std::string problem = image_problem(image, target);
  if (!problem.empty())
    throw ImageError(
        str_cat("the binary of ", name, " for ", to_string(target), " is damaged: ", problem));
}

// A compiler may report success although it wrote a partial file, on a full disk or because of its wrapper.
void try_to_load(const Binary& binary, const std::string& name, const Target& target,
                 const std::vector<std::string>& scratch) {
  try {
    check_image(binary.image, name, target);
    if (target.kind == Target::Kind::cpu) load_host_module(binary.image, name, scratch);
  } catch (const ImageError& error) {
    throw ImageError(str_cat(error.what(), ". The compiler reported success. Its output: ",
                             binary.log.empty() ? "none" : binary.log,
                             "\nCheck for a full disk. If JITSTEP_CXX is a script, check it."));
  }
}

}  // namespace jitstep::jit
