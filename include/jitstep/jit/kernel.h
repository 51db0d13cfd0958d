// A compiled binary, and a kernel that is loaded and ready to launch.
#pragma once

#include <memory>
#include <string>

#include "jitstep/jit/compiler.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/export.h"

namespace jitstep::jit {

class CudaEntry;
class Module;

/// A compiled source and how it was made, not loaded yet.
struct JITSTEP_API Built {
  std::string name;
  std::string key;  // sha256 in hex; names the file in the cache
  Target target;
  Binary binary;
  bool from_cache = false;  // read from disk, not compiled by this process
  double compile_ms = 0;    // duration of the compile, here or on the machine that filled the cache
  std::string unit;         // the requested translation unit
  std::shared_ptr<const std::string> text;  // preprocessed source that the compiler got
};

/// An entry of a host binary. Runs the work items [begin, end).
using CpuEntry = void (*)(const void* args, long long begin, long long end);
/// An entry of an emulated binary. Every lane of every block runs it.
using EmulatedEntry = void (*)(const void* args);

/// A loaded binary. Immutable and thread safe. Its entries are valid as long as it exists.
class JITSTEP_API Kernel {
 public:
  /// Only an Engine makes kernels.
  Kernel(std::shared_ptr<const Built> built, std::unique_ptr<Module> module);
  ~Kernel();

  /// Properties of the binary. See Built.
  const std::string& name() const { return built_->name; }
  const std::string& key() const { return built_->key; }
  const Target& target() const { return built_->target; }
  bool from_cache() const { return built_->from_cache; }
  double compile_ms() const { return built_->compile_ms; }
  const std::vector<Resources>& resources() const { return built_->binary.resources; }
  const std::shared_ptr<const Built>& built() const { return built_; }

  /// Entries by their unmangled extern "C" names. An unknown name, or a kernel of another target, throws an Error.
  CpuEntry cpu(const std::string& entry) const;
  EmulatedEntry emulated(const std::string& entry) const;
  CudaEntry cuda(const std::string& entry) const;

 private:
  std::shared_ptr<const Built> built_;
  std::unique_ptr<Module> module_;
};

}  // namespace jitstep::jit
