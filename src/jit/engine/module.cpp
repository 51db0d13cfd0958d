#include "jit/engine/module.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <locale.h>
#include <sys/stat.h>

#include <cstring>

#include "jit/base/file_io.h"
#include "jit/base/scratch.h"
#include "jit/base/text.h"
#include "jit/compiler/image.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

// glibc identifies loaded objects by path.
bool is_loaded(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

std::string path_of(const FileHandle& file) { return str_cat("/proc/self/fd/", file.get()); }

// A memory file whose descriptor the program may have closed, as daemons close all descriptors. Another file may have
// its number then.
class MemoryFile {
 public:
  MemoryFile() = default;
  explicit MemoryFile(FileHandle file) : file_(std::move(file)) { ::fstat(file_.get(), &status_); }
  MemoryFile(MemoryFile&&) = default;
  ~MemoryFile() {
    struct stat now {};
    const bool is_same = file_ && ::fstat(file_.get(), &now) == 0 && now.st_dev == status_.st_dev &&
                         now.st_ino == status_.st_ino;
    // An object with unique symbols is never unloaded, so its file must stay open.
    if (!is_same || is_loaded(path_of(file_))) file_.release();
  }

 private:
  FileHandle file_;
  struct stat status_ {};
};

// Note: the memory file stays open while its object is loaded, so that no other file gets its path.
class HostModule : public Module {
 public:
  HostModule(void* handle, std::string name, MemoryFile file)
      : file_(std::move(file)), handle_(handle, &dlclose), name_(std::move(name)) {}

  void* symbol(const std::string& entry) const override {
    if (void* found = dlsym(handle_.get(), entry.c_str())) return found;
    throw Error(str_cat("the binary of ", name_, " has no entry ", entry,
                        ". Declare it extern \"C\" with default visibility."));
  }

 private:
  MemoryFile file_;  // before the handle, which is closed first
  std::unique_ptr<void, int (*)(void*)> handle_;
  std::string name_;
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

// dlerror() in English, whatever the locale of the program.
std::string words_of_loader() {
  const locale_t english = ::newlocale(LC_ALL_MASK, "C", nullptr);
  const locale_t before = ::uselocale(english);
  std::string words = dlerror();
  ::uselocale(before);
  ::freelocale(english);
  return words;
}

// Failures to read or map the file are not the image's.
Failure loader_failure() {
  const std::string words = words_of_loader();
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
  // The program has closed the descriptor of a loaded object: dlopen() would return that object.
  while (file && is_loaded(path_of(file)))
    file = FileHandle(::fcntl(file.get(), F_DUPFD_CLOEXEC, file.get() + 1));
  if (!file) {
    failure.add({str_cat("a descriptor for a memory file: ", failure_advice(errno))});
    return nullptr;
  }
  void* handle = dlopen(path_of(file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    failure.add(loader_failure());
    return nullptr;
  }
  return std::make_unique<HostModule>(handle, name, MemoryFile(std::move(file)));
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
  return std::make_unique<HostModule>(handle, name, MemoryFile());
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
