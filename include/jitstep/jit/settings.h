// Settings from environment variables. No other part of the library depends on the environment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jitstep/jit/error.h"
#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// The values of Settings::cpu: this processor, or a baseline level of the x86-64 ABI.
inline constexpr std::string_view kCpus[] = {"native", "x86-64", "x86-64-v2", "x86-64-v3",
                                             "x86-64-v4"};
JITSTEP_API bool is_cpu(std::string_view word);

/// The settings of an Engine. A plain struct, so that tests and tools can fill it.
struct JITSTEP_API Settings {
  // ---- settings that change behavior

  /// JITSTEP_CACHE_DIR, else XDG_CACHE_HOME/jitstep, else HOME/.cache/jitstep. If empty, binaries are stored only in
  /// memory.
  std::string cache_dir;
  /// JITSTEP_CACHE_READONLY: a filled cache folder that is searched after `cache_dir` and never written to.
  std::string cache_readonly;
  /// A filled cache folder in the program's own package, searched last and never written to. It is trusted like the
  /// program: owner and permissions are not checked. Set by programs; no variable names it.
  std::string packaged_kernels;
  /// JITSTEP_TEMPLATES: a folder whose files replace built-in templates of the same name.
  std::string templates;
  /// JITSTEP_OVERRIDE: a folder with the structure of JITSTEP_DUMP. An edited flat.cuh in it is compiled instead of the
  /// source that it was written from.
  std::string override_folder;
  /// JITSTEP_CXX: one program, as a name on PATH or as a path, without arguments. If empty: c++, g++ or clang++. A
  /// program named zig is called as `zig cc`.
  std::string cxx;
  /// The path of a compiler to use if `cxx` is empty and PATH has none. Set by programs whose package brings one.
  std::string packaged_cxx;
  /// JITSTEP_CPU: the target of CPU kernels: native (this processor), x86-64, x86-64-v2, x86-64-v3 or x86-64-v4 (every
  /// processor from that level on, known to g++ 11 and clang 12). Results are bit-identical. If empty, new kernels are
  /// native, and baselines from the caches are used if they save a compile. See CACHE_FORMAT.md.
  std::string cpu;
  /// JITSTEP_COMPILE_SECONDS: the host compiler is killed after this time, in seconds. 0: no limit.
  std::int64_t compile_seconds = 300;
  /// Environment of the host compiler in addition to PATH and TMPDIR: variables that programs need to be found, to be
  /// loaded, and to find their caches. No variable that changes the compiler's output.
  std::vector<std::pair<std::string, std::string>> compiler_variables;
  /// JITSTEP_NVRTC: libnvrtc or its folder. If it is set, only it is searched.
  std::string nvrtc;
  /// Folders that are searched for libnvrtc before the system's: the folder, its lib, and any nvidia/*/lib below it, so
  /// that a Python site-packages folder works.
  std::vector<std::string> nvrtc_search;
  /// VIRTUAL_ENV, else CONDA_PREFIX: the active Python environment. Its libnvrtc is searched next.
  std::string python_environment;
  /// JITSTEP_LOG: off, warn (default), info or debug.
  LogLevel log = LogLevel::warn;
  /// PATH, to find the host compiler.
  std::string path;
  /// TMPDIR, the first choice for the host compiler's private work folder.
  std::string tmpdir;

  /// JITSTEP_CHECK=1: kernels are compiled with poisoned unset values, and each rule runs on one element before its
  /// first step, to find values that it does not set. Slow to start. For authors of optimizers.
  bool check = false;

  /// JITSTEP_TUNE=1: optimizers tune their kernels while they step. See Optimizer::step.
  bool tune = false;
  /// WORLD_SIZE, which torchrun sets: the number of processes that train together.
  std::int64_t ranks = 1;

  // ---- settings that change disk use

  /// JITSTEP_DUMP: a folder that gets sources, binary, log and resources of each kernel that is compiled or found in
  /// the cache. If empty, nothing is written.
  std::string dump_folder;
  /// Size limit of `cache_dir` in bytes. The least recently used entries are removed first.
  std::uint64_t cache_bytes = std::uint64_t{1} << 30;

  /// Reads the environment of the process, in each call. Relative paths become absolute. In a set-user-ID program the
  /// environment counts as empty. An invalid value causes a warning, never an error. A process gets each of these
  /// warnings once.
  static Settings from_environment();
};

}  // namespace jitstep::jit
