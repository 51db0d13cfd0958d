// Binary images that are loaded into the process or onto a device.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "jit/engine/cuda_driver.h"
#include "jitstep/jit/compiler.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/target.h"

namespace jitstep::jit {

/// An invalid image. The engine then compiles a cached one again.
struct ImageError : Error {
  using Error::Error;
};

/// Owns a loaded image. Thread safe after loading.
class Module {
 public:
  virtual ~Module() = default;

  /// The address of a host symbol, or a CUfunction of a GPU image. A missing name throws an Error.
  virtual void* symbol(const std::string& name) const = 0;

  /// A launchable entry of a GPU image. Throws an Error for host images.
  virtual CudaEntry cuda_entry(const std::string& name) const;
};

/// Loads a shared object from memory, or from one of the folders in `scratch` if the system does not allow code from
/// memory files.
std::unique_ptr<Module> load_host_module(std::span<const std::byte> image, const std::string& name,
                                         const std::vector<std::string>& scratch);

/// Loads a shared object through a private file in the first suitable folder.
std::unique_ptr<Module> load_host_module_from_folder(std::span<const std::byte> image,
                                                     const std::string& name,
                                                     const std::vector<std::string>& scratch);

/// Loads a cubin or PTX into the primary context of `device`.
std::unique_ptr<Module> load_cuda_module(std::span<const std::byte> image, const std::string& name,
                                         CudaDriver& driver, int device);

/// Throws an ImageError if the image cannot be one for `target`. See image_problem().
void check_image(std::span<const std::byte> image, const std::string& name, const Target& target);

/// Throws an ImageError if a new binary cannot be loaded. Only validates emulated and GPU binaries, because loading
/// them needs the emulating program or a GPU.
void try_to_load(const Binary& binary, const std::string& name, const Target& target,
                 const std::vector<std::string>& scratch);

}  // namespace jitstep::jit
