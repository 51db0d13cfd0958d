// Finds and opens libnvrtc at run time. Declares the functions itself, so no CUDA header is needed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "jitstep/jit/settings.h"

namespace jitstep::jit {

/// Function pointers of NVRTC. They return nvrtcResult, where 0 is success.
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

/// An opened NVRTC. Never closed, because NVRTC does not support it.
struct NvrtcLibrary {
  NvrtcApi api;
  std::string path;  // empty if the loader's own search found it
  int major = 0;
  int minor = 0;
  std::vector<int> archs;  // compute capabilities times ten, ascending; not empty

  std::string version() const { return std::to_string(major) + "." + std::to_string(minor); }
};

/// Opens NVRTC 12 or newer. If settings.nvrtc is set, tries only that. Otherwise it searches the folders of
/// settings.nvrtc_search, the active Python environment, that of the source folder (if the program is in its build
/// folder), LibTorch's folder at build time, the loader's path, and /usr/local/cuda. Of all found, it returns the first
/// one whose kernels a driver for CUDA `driver_version` (such as 12040) can load, which needs the same or an older
/// major version. Without such a one, or without a driver (0), it returns the first. Returns nothing if there is none.
/// `problem` then names the searched locations and gives installation advice.
std::optional<NvrtcLibrary> find_nvrtc(const Settings& settings, int driver_version,
                                       std::string& problem);

/// All locations of libnvrtc below a folder, newest version first: the folder, its lib and lib64, and nvidia/*/lib or
/// */lib in pip's layout, here or in the site-packages of a Python environment.
std::vector<std::string> nvrtc_files(const std::string& folder);

}  // namespace jitstep::jit
