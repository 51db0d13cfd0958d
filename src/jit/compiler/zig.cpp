#include "jit/compiler/zig.h"

#include <algorithm>
#include <string_view>

#include "jit/base/private_files.h"

namespace jitstep::jit {

bool is_zig(const std::string& program) { return program.substr(program.rfind('/') + 1) == "zig"; }

// `zig c++` would first compile a C++ library, for minutes. This is `zig cc`, with kernels that need no library. The
// target makes kernels independent of this machine's Linux and C library.
std::vector<std::string> command_of(const std::string& program) {
  if (!is_zig(program)) return {program};
  std::vector<std::string> words = {program, "cc", "-s", "-fno-exceptions", "-fno-sanitize=all"};
#if defined(__x86_64__)
  words.insert(words.end(), {"-target", "x86_64-linux-gnu.2.28"});
#endif
  return words;
}

// zig separates the parts of a processor's name by underscores.
std::vector<std::string> flags_for(const std::string& program, std::vector<std::string> flags) {
  constexpr std::string_view kCpu = "-march=";
  for (std::string& flag : flags)
    if (is_zig(program) && flag.starts_with(kCpu))
      std::replace(flag.begin() + kCpu.size(), flag.end(), '-', '_');
  return flags;
}

// One cache has what zig links to every binary, such as start files. It takes seconds to make, so it is kept. The other
// one would keep every kernel.
void add_zig_folders(Variables& variables, const Settings& settings, const std::string& folder) {
  const std::string cache = settings.cache_dir + "/zig";
  const bool kept = !settings.cache_dir.empty() && !make_own_folder(cache);
  variables.emplace_back("ZIG_GLOBAL_CACHE_DIR", kept ? cache : folder);
  variables.emplace_back("ZIG_LOCAL_CACHE_DIR", folder);
}

}  // namespace jitstep::jit
