// What a compiler said when it was asked who it is, kept on disk: the next process need not run it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "jit/base/process.h"
#include "jitstep/jit/settings.h"

namespace jitstep::jit {

/// One question to one program, in the cache folder beside the kernels. The answer holds for the file that the
/// program was then (device, inode, size, times of change) and for the processor, which decides what
/// -march=native stands for. Trouble with the disk is an answer that is not there.
class RememberedIdentity {
 public:
  /// `words`: the command, its program first; `variables`: its environment, but for what differs every time.
  RememberedIdentity(const Settings& settings, const std::vector<std::string>& words,
                     const Variables& variables);

  /// The identity, if the same program gave it.
  std::optional<std::string> find() const;

  /// Keeps it for later processes. Only of a program whose own report says that it is the compiler itself, with
  /// no file of settings: what a wrapper runs may change while the wrapper does not.
  void keep(const std::string& identity, const std::string& report) const;

 private:
  std::string folder_, program_;
  std::string file_;   // empty: nothing is remembered here
  std::string stamp_;  // of the program before it is run
};

}  // namespace jitstep::jit
