// What the environment says, read once. Nothing else in the library asks for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/log.h"

namespace jitstep::jit {

/// What Settings::cpu may be: the processor that compiles, or a baseline of the x86-64 ABI.
inline constexpr std::string_view kCpus[] = {"native", "x86-64", "x86-64-v2", "x86-64-v3",
                                             "x86-64-v4"};
JITSTEP_API bool is_cpu(std::string_view word);

/// The settings of an Engine. A plain struct: tests and tools fill it by hand.
struct JITSTEP_API Settings {
  // ---- what affects behaviour

  /// JITSTEP_CACHE_DIR, else XDG_CACHE_HOME/jitstep, else HOME/.cache/jitstep. Empty: binaries are
  /// kept in memory only.
  std::string cache_dir;
  /// JITSTEP_CACHE_READONLY: a filled cache folder below `cache_dir`, never written to.
  std::string cache_readonly;
  /// JITSTEP_TEMPLATES: a folder whose files hide the embedded templates of the same name.
  std::string templates;
  /// JITSTEP_OVERRIDE: a folder as JITSTEP_DUMP fills it. A flat.cuh there that was edited is compiled in the
  /// place of the text that it was written from.
  std::string override_folder;
  /// JITSTEP_CXX: one program, a name on PATH or a path (no arguments). Empty: c++, g++, clang++.
  std::string cxx;
  /// JITSTEP_CPU: what the host compiler's kernels are for: native (the processor that compiles), x86-64,
  /// x86-64-v2, x86-64-v3 or x86-64-v4 (every processor from that level on; g++ 11 and clang 12 know them). The
  /// bits of results are the same. Empty: what is compiled here is native, and baselines in the caches are used
  /// where they save a compile; see CACHE_FORMAT.md.
  std::string cpu;
  /// JITSTEP_COMPILE_SECONDS: the host compiler is stopped when it takes longer. 0: no limit.
  std::int64_t compile_seconds = 300;
  /// What the host compiler gets of the environment beside PATH and TMPDIR: what programs need to be
  /// found, loaded and to find their own caches. Nothing that changes what compilers write.
  std::vector<std::pair<std::string, std::string>> compiler_variables;
  /// JITSTEP_NVRTC: libnvrtc itself or its folder. When set, nothing else is tried.
  std::string nvrtc;
  /// Folders looked through for libnvrtc before the system's: each itself, its lib, and any
  /// nvidia/*/lib below it, so that a Python site-packages folder will do.
  std::vector<std::string> nvrtc_search;
  /// VIRTUAL_ENV, else CONDA_PREFIX: the Python environment that is active. Its libnvrtc is looked for next.
  std::string python_environment;
  /// JITSTEP_LOG: off, warn (default), info or debug.
  LogLevel log = LogLevel::warn;
  /// PATH, where the host compiler is looked up.
  std::string path;
  /// TMPDIR, tried first for the host compiler's private work folder.
  std::string tmpdir;

  /// JITSTEP_CHECK=1: kernels are compiled with everything poisoned that nobody has set, and a rule is run
  /// on one element before its first step, to find what it leaves out. Slow to start; for who writes rules.
  bool check = false;

  /// JITSTEP_TUNE=1: optimizers try in their steps how their kernels run best; see Optimizer.
  bool tune = false;
  /// WORLD_SIZE, which torchrun sets: processes that train together.
  std::int64_t ranks = 1;

  // ---- what affects disk use

  /// JITSTEP_DUMP: a folder that gets the texts, the binary, the log and the resources of each kernel when it
  /// is made or found in the cache. Empty: nothing is written.
  std::string dump_folder;
  /// Size limit of `cache_dir`; the entries unused for longest go first.
  std::uint64_t cache_bytes = std::uint64_t{1} << 30;

  /// Reads the process's environment; in a program with the rights of another user (set-user-ID) it
  /// counts as empty. A value that cannot be read gives a warning, never an error.
  static Settings from_environment();
};

}  // namespace jitstep::jit
