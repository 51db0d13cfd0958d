// A binary that is loaded and ready to launch.
#pragma once

#include <memory>
#include <string>

#include "jitstep/jit/compiler.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/export.h"

namespace jitstep::jit {

class CudaEntry;
class Module;

/// A compiled text with its history, not loaded yet.
struct JITSTEP_API Built {
  std::string name;
  std::string key;  // sha256 in hex: the cache's file name
  Target target;
  Binary binary;
  bool from_cache = false;  // read from disk, not compiled by this process
  double compile_ms = 0;    // what the compile took, here or where the cache was filled
  std::string unit;         // the text that it was asked for with
  std::shared_ptr<const std::string>
      text;  // that the compiler was given: the unit and all it includes
};

/// An entry of a host binary: runs the work items [begin, end).
using CpuEntry = void (*)(const void* args, long long begin, long long end);
/// An entry of an emulated binary: run by every lane of every block.
using EmulatedEntry = void (*)(const void* args);

/// A loaded binary. Immutable and thread safe; its entries live as long as it does.
class JITSTEP_API Kernel {
 public:
  /// Made by an Engine.
  Kernel(std::shared_ptr<const Built> built, std::unique_ptr<Module> module);
  ~Kernel();

  /// What it was built from and how; see Built.
  const std::string& name() const { return built_->name; }
  const std::string& key() const { return built_->key; }
  const Target& target() const { return built_->target; }
  bool from_cache() const { return built_->from_cache; }
  double compile_ms() const { return built_->compile_ms; }
  const std::vector<Resources>& resources() const { return built_->binary.resources; }
  const std::shared_ptr<const Built>& built() const { return built_; }

  /// Entries by their plain extern "C" names. A name that is not there, or a kernel of another
  /// target, is an Error.
  CpuEntry cpu(const std::string& entry) const;
  EmulatedEntry emulated(const std::string& entry) const;
  CudaEntry cuda(const std::string& entry) const;

 private:
  std::shared_ptr<const Built> built_;
  std::unique_ptr<Module> module_;
};

}  // namespace jitstep::jit
