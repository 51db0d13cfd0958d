// A binary image loaded into the process or onto a device.
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

/// An image that is not what it should be; a cached one is compiled anew then.
struct ImageError : Error {
  using Error::Error;
};

/// Owns a loaded image. Thread safe after loading.
class Module {
 public:
  virtual ~Module() = default;

  /// The address of a host symbol, or a CUfunction of a GPU image. A missing name is an Error.
  virtual void* symbol(const std::string& name) const = 0;

  /// A launchable entry of a GPU image; an Error for host images.
  virtual CudaEntry cuda_entry(const std::string& name) const;
};

/// Loads a shared object from memory, or from one of the folders of `scratch` if the system does
/// not let code be mapped from memory files.
std::unique_ptr<Module> load_host_module(std::span<const std::byte> image, const std::string& name,
                                         const std::vector<std::string>& scratch);

/// Loads a shared object through a private file in the first folder that will do.
std::unique_ptr<Module> load_host_module_from_folder(std::span<const std::byte> image,
                                                     const std::string& name,
                                                     const std::vector<std::string>& scratch);

/// Loads a cubin or PTX into the primary context of `device`.
std::unique_ptr<Module> load_cuda_module(std::span<const std::byte> image, const std::string& name,
                                         CudaDriver& driver, int device);

/// An ImageError if the image cannot be one for `target`; see image_problem.
void check_image(std::span<const std::byte> image, const std::string& name, const Target& target);

/// An ImageError if what a compiler has just made cannot be loaded. What is emulated needs the program that loads it, and a
/// GPU's binary a GPU: these are looked at only.
void try_to_load(const Binary& binary, const std::string& name, const Target& target,
                 const std::vector<std::string>& scratch);

}  // namespace jitstep::jit
