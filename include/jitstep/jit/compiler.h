// What a compiler gives and takes: a self-contained text in, a binary out. Knows no cache.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/target.h"

namespace jitstep::jit {

/// What one entry of a binary uses, read from the compile log. GPU targets only.
struct JITSTEP_API Resources {
  std::string entry;
  int registers = 0;
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  int stack_bytes = 0;   // local memory per thread
  int shared_bytes = 0;  // static shared memory per block

  bool operator==(const Resources&) const = default;
};

/// A compiled text: an ELF shared object (host), a cubin or PTX text (GPU).
struct JITSTEP_API Binary {
  std::vector<std::byte> image;
  std::string log;
  std::vector<Resources> resources;
};

/// How well a cached binary that another compiler made serves a machine.
struct JITSTEP_API Fitness {
  int rank = 0;              // of several the highest is used; 0: it must not be used
  bool baseline = false;     // it is for all processors from some level on, not for one kind
  std::string problem = {};  // why it must not be used; empty if it may
};

/// One compiler. Thread safe: several threads may compile at once.
class JITSTEP_API Compiler {
 public:
  virtual ~Compiler() = default;

  /// Returns a binary with a non-empty image, or throws CompileError (the text is wrong) or Error
  /// (the compiler is missing or unusable). `name` is for messages.
  virtual Binary compile(const std::string& text, const std::string& name,
                         const Target& target) = 0;

  /// Version, build and resolved options: all but the text that decides the binary's bits. Holds no
  /// path, so that a cache can be moved. Throws Error if the compiler is missing.
  virtual const std::string& identity(const Target& target) = 0;

  /// Whether there is a compiler for the target at all. Where there is none, the cache may serve what
  /// `fitness` ranks; compile and identity throw an Error that says what to install.
  virtual bool available(const Target&) { return true; }

  /// How well a cached binary of a compiler with this identity serves here in the place of one of this
  /// compiler's, which may be missing: it must be made with the same options, and be code that this machine runs.
  virtual Fitness fitness(const std::string& identity, const Target& target) const {
    (void)identity, (void)target;
    return {.problem = "another compiler's binaries are not used"};
  }
};

}  // namespace jitstep::jit
