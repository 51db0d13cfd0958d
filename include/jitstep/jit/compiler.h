// The interface of compilers: preprocessed source in, binary out. Does not know the cache.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/target.h"

namespace jitstep::jit {

/// Resources of one entry of a binary, read from the compile log. GPU targets only.
struct JITSTEP_API Resources {
  std::string entry;
  int registers = 0;
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  int stack_bytes = 0;   // local memory per thread
  int shared_bytes = 0;  // static shared memory per block

  bool operator==(const Resources&) const = default;
};

/// A compiled source: an ELF shared object (host), or a cubin or PTX text (GPU).
struct JITSTEP_API Binary {
  std::vector<std::byte> image;
  std::string log;
  std::vector<Resources> resources;
};

/// How suitable a cached binary of another compiler is for this machine.
struct JITSTEP_API Fitness {
  int rank = 0;              // the highest rank is used; 0: must not be used
  bool baseline = false;     // compiled for a baseline of processors, not for one model
  std::string problem = {};  // why it must not be used; else empty
};

/// One compiler. Thread safe: several threads may compile concurrently.
class JITSTEP_API Compiler {
 public:
  virtual ~Compiler() = default;

  /// Returns a binary with a non-empty image. Throws a CompileError if the source is wrong, or another Error if the
  /// compiler is missing, unusable or out of resources. `name` is for messages.
  virtual Binary compile(const std::string& text, const std::string& name,
                         const Target& target) = 0;

  /// Version, build and resolved options: everything except the source that determines the binary. Contains no paths,
  /// so that a cache can be moved. Throws an Error if the compiler is missing.
  virtual const std::string& identity(const Target& target) = 0;

  /// True if there is a compiler for the target. If not, the cache may use binaries that `fitness` ranks, and compile()
  /// and identity() throw an Error with installation advice.
  virtual bool available(const Target&) { return true; }

  /// How suitable a cached binary of the compiler with this identity is in place of this compiler's own, which may be
  /// missing. It must have the same options and run on this machine.
  virtual Fitness fitness(const std::string& identity, const Target& target) const {
    (void)identity, (void)target;
    return {.problem = "another compiler's binaries are not used"};
  }
};

}  // namespace jitstep::jit
