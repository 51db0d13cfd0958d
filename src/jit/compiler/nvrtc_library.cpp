#include "jit/compiler/nvrtc_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "jit/base/private_files.h"
#include "jit/base/text.h"

// LibTorch's folder at build time.
#ifndef JITSTEP_NVRTC_HINT
#define JITSTEP_NVRTC_HINT ""
#endif

namespace jitstep::jit {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

constexpr char kInstall[] =
    "Install it with `pip install nvidia-cuda-nvrtc` (CUDA 13) or nvidia-cuda-nvrtc-cu12, or from "
    "a CUDA toolkit, and set JITSTEP_NVRTC to libnvrtc.so or its folder";

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failure;
  fs::directory_iterator entry(folder, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    found.push_back(entry->path());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

// Note: pip's NVRTC has no RUNPATH, so it does not find libnvrtc-builtins, and every compile fails with
// NVRTC_ERROR_BUILTIN_OPERATION_FAILURE. The loader finds it by name after this function has opened it by its full
// path.
void open_builtins(const fs::path& folder) {
  for (const fs::path& file : entries_of(folder)) {
    const std::string name = file.filename().string();
    if (!name.starts_with("libnvrtc-builtins.so")) continue;
    if (dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return;
  }
}

template <class Function>
bool load(void* handle, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(handle, name));
  return function != nullptr;
}

bool load_all(void* handle, NvrtcApi& api) {
  return load(handle, "nvrtcVersion", api.nvrtcVersion) &&
         load(handle, "nvrtcGetErrorString", api.nvrtcGetErrorString) &&
         load(handle, "nvrtcGetNumSupportedArchs", api.nvrtcGetNumSupportedArchs) &&
         load(handle, "nvrtcGetSupportedArchs", api.nvrtcGetSupportedArchs) &&
         load(handle, "nvrtcCreateProgram", api.nvrtcCreateProgram) &&
         load(handle, "nvrtcDestroyProgram", api.nvrtcDestroyProgram) &&
         load(handle, "nvrtcCompileProgram", api.nvrtcCompileProgram) &&
         load(handle, "nvrtcGetProgramLogSize", api.nvrtcGetProgramLogSize) &&
         load(handle, "nvrtcGetProgramLog", api.nvrtcGetProgramLog) &&
         load(handle, "nvrtcGetCUBINSize", api.nvrtcGetCUBINSize) &&
         load(handle, "nvrtcGetCUBIN", api.nvrtcGetCUBIN) &&
         load(handle, "nvrtcGetPTXSize", api.nvrtcGetPTXSize) &&
         load(handle, "nvrtcGetPTX", api.nvrtcGetPTX);
}

bool read_archs(NvrtcLibrary& library) {
  int count = 0;
  if (library.api.nvrtcGetNumSupportedArchs(&count) != 0 || count <= 0) return false;
  library.archs.resize(static_cast<std::size_t>(count));
  if (library.api.nvrtcGetSupportedArchs(library.archs.data()) != 0) return false;
  std::sort(library.archs.begin(), library.archs.end());
  return true;
}

// Opens NVRTC. Returns the reason if the file is not a usable NVRTC.
std::string try_open(const std::string& file, NvrtcLibrary& library) {
  const bool has_path = file.find('/') != std::string::npos;
  if (has_path) open_builtins(fs::path(file).parent_path());
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return dlerror();
  if (!load_all(handle, library.api)) return file + " lacks functions of NVRTC 12";
  if (library.api.nvrtcVersion(&library.major, &library.minor) != 0 || library.major < 12) {
    return str_cat(file, " is NVRTC ", library.version(), ", and jitstep needs 12 or newer");
  }
  if (!read_archs(library)) return file + " does not report which GPUs it supports";
  library.path = has_path ? file : "";
  return {};
}

// The Python environment that tools/setup.sh creates in the source folder, if this program is in a build folder there,
// such as build/tools/jitstep.
std::string environment_of_build() {
  std::error_code failure;
  fs::path folder = fs::read_symlink("/proc/self/exe", failure);
  for (int up = 0; up < 3; ++up) {
    folder = folder.parent_path();
    const std::string environment = (folder / ".deps/venv").string();
    if (!folder_problem(environment, Trust::source)) return environment;
  }
  return {};
}

std::vector<std::string> candidates(const Settings& settings) {
  std::vector<std::string> files;
  const auto add = [&](const std::string& location) {
    std::error_code failure;
    if (fs::is_directory(location, failure)) {
      for (const std::string& file : nvrtc_files(location)) files.push_back(file);
    } else if (!location.empty()) {
      files.push_back(location);
    }
  };
  add(settings.nvrtc);
  if (!settings.nvrtc.empty()) return files;
  for (const std::string& folder : settings.nvrtc_search) add(folder);
  const auto add_found_in = [&](const std::string& folder) {
    if (folder.empty()) return;
    for (const std::string& file : nvrtc_files(folder)) files.push_back(file);
  };
  add_found_in(settings.python_environment);
  add_found_in(environment_of_build());
  add_found_in(JITSTEP_NVRTC_HINT);
  for (const char* name : kFileNames) add(name);
  add_found_in("/usr/local/cuda");
  return files;
}

}  // namespace

std::vector<std::string> nvrtc_files(const std::string& folder) {
  const fs::path root = folder;
  std::vector<fs::path> locations = {root, root / "lib", root / "lib64"},
                        parents = {root, root / "nvidia"};
  for (const fs::path& python : entries_of(root / "lib"))
    if (python.filename().string().starts_with("python"))
      parents.push_back(python / "site-packages/nvidia");
  for (const fs::path& parent : parents) {
    for (const fs::path& entry : entries_of(parent)) locations.push_back(entry / "lib");
  }
  std::vector<std::string> files;
  for (const char* name : kFileNames) {
    for (const fs::path& location : locations) {
      std::error_code failure;
      if (fs::exists(location / name, failure)) files.push_back((location / name).string());
    }
  }
  return files;
}

std::optional<NvrtcLibrary> find_nvrtc(const Settings& settings, int driver_version,
                                       std::string& problem) {
  std::optional<NvrtcLibrary> first;
  std::string tried;
  for (const std::string& file : candidates(settings)) {
    NvrtcLibrary library;
    if (const std::string failure = try_open(file, library); !failure.empty()) {
      tried += "\n  " + failure;
      continue;
    }
    if (driver_version == 0 || library.major <= driver_version / 1000) return library;
    if (!first) first = std::move(library);
  }
  problem = settings.nvrtc.empty()
                ? str_cat("NVRTC, the compiler for NVIDIA GPUs, was not found. ", kInstall,
                          ". Searched:", tried)
                : str_cat("cannot open NVRTC from JITSTEP_NVRTC=", settings.nvrtc, ". ", kInstall,
                          ".", tried);
  return first;
}

}  // namespace jitstep::jit
