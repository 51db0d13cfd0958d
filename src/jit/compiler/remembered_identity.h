// Caches a compiler's identity on disk, so that later processes need not run the compiler for it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jit/base/process.h"
#include "jitstep/jit/settings.h"

namespace jitstep::jit {

/// The end of the names of the files. The start is a SHA-256 in hexadecimal digits.
inline constexpr std::string_view kIdentitySuffix = ".compiler";

/// The answer of one program to one command, stored in the cache folder. It is valid for the program file of that time
/// (device, inode, size, change times) and for the processor, which determines -march=native. Disk problems count as a
/// missing answer.
class RememberedIdentity {
 public:
  /// `words` is the command, starting with the program. `variables` is its environment, without parts that always
  /// differ.
  RememberedIdentity(const Settings& settings, const std::vector<std::string>& words,
                     const Variables& variables);

  /// The identity, if the same program gave it. Marks its file as used, because the cache deletes unused ones.
  std::optional<std::string> find() const;

  /// Stores the identity for later processes, but only if the program's own report says that it is the compiler itself,
  /// without a configuration file: the program that a wrapper runs may change although the wrapper does not.
  void store(const std::string& identity, const std::string& report) const;

 private:
  std::string folder_, program_;
  std::string file_;   // empty: caching is not possible
  std::string stamp_;  // of the program, before it runs
};

}  // namespace jitstep::jit
