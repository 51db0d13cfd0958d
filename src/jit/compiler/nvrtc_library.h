// libnvrtc, found and opened at run time. Own declarations: no CUDA header is needed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "jitstep/jit/settings.h"

namespace jitstep::jit {

/// The functions of NVRTC that are called; results are nvrtcResult, 0 is success.
struct NvrtcApi {
  int (*nvrtcVersion)(int* major, int* minor) = nullptr;
  const char* (*nvrtcGetErrorString)(int code) = nullptr;
  int (*nvrtcGetNumSupportedArchs)(int* count) = nullptr;
  int (*nvrtcGetSupportedArchs)(int* archs) = nullptr;
  int (*nvrtcCreateProgram)(void** program, const char* source, const char* name, int header_count,
                            const char* const* headers, const char* const* names) = nullptr;
  int (*nvrtcDestroyProgram)(void** program) = nullptr;
  int (*nvrtcCompileProgram)(void* program, int count, const char* const* options) = nullptr;
  int (*nvrtcGetProgramLogSize)(void* program, std::size_t* size) = nullptr;
  int (*nvrtcGetProgramLog)(void* program, char* log) = nullptr;
  int (*nvrtcGetCUBINSize)(void* program, std::size_t* size) = nullptr;
  int (*nvrtcGetCUBIN)(void* program, char* cubin) = nullptr;
  int (*nvrtcGetPTXSize)(void* program, std::size_t* size) = nullptr;
  int (*nvrtcGetPTX)(void* program, char* ptx) = nullptr;
};

/// An opened NVRTC. It is never closed: it does not survive that.
struct NvrtcLibrary {
  NvrtcApi api;
  std::string path;  // empty if the loader's own search found it
  int major = 0;
  int minor = 0;
  std::vector<int> archs;  // compute capabilities times ten, ascending

  std::string version() const { return std::to_string(major) + "." + std::to_string(minor); }
};

/// Opens NVRTC 12 or newer: settings.nvrtc alone if set; else the folders of settings.nvrtc_search, the
/// Python environment that is active, that of the source folder if the program is in its build folder, the folder of
/// LibTorch when the library was built, the loader's search, /usr/local/cuda. Of those found,
/// the first whose kernels a driver for CUDA `driver_version` (such as 12040) loads, which is one of
/// its major version or older; the first of all if there is none such, or no driver (0). Nothing if
/// none is found: `problem` then says where it was looked for and what to install.
std::optional<NvrtcLibrary> find_nvrtc(const Settings& settings, int driver_version,
                                       std::string& problem);

/// All places below a folder where libnvrtc lies, newest version first: the folder itself, its lib
/// and lib64, and nvidia/*/lib or */lib as pip lays them out, here or in the site-packages of a Python environment.
std::vector<std::string> nvrtc_files(const std::string& folder);

}  // namespace jitstep::jit
