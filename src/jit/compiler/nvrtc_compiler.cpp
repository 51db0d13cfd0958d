#include "jit/compiler/nvrtc_compiler.h"

#include <algorithm>
#include <sstream>

#include "jit/base/file_io.h"
#include "jit/base/text.h"
#include "jit/compiler/diagnosis.h"
#include "jit/compiler/resource_report.h"
#include "jit/source/source_map.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

constexpr int kBuiltinFailure = 7;  // NVRTC_ERROR_BUILTIN_OPERATION_FAILURE
constexpr int kCompilationError = 6;

// Options that determine results, in addition to the architecture. They must not have side effects.
std::vector<std::string> code_options(bool check) {
  std::vector<std::string> options = {"--std=c++20",       "--device-as-default-execution-space",
                                      "--fmad=false",      "--ftz=false",
                                      "--prec-div=true",   "--prec-sqrt=true",
                                      "--diag-error=940",  // a missing return statement
                                      "--ptxas-options=-v"};
  if (check) options.emplace_back("--define-macro=JITSTEP_CHECK");
  return options;
}

std::string code_options_text(bool check) { return " " + joined(code_options(check), " "); }

// One nvrtcProgram.
class Program {
 public:
  Program(const NvrtcApi& api, const std::string& source, const std::string& name) : api_(api) {
    const int code =
        api_.nvrtcCreateProgram(&program_, source.c_str(), name.c_str(), 0, nullptr, nullptr);
    if (code) throw ToolchainError(str_cat("nvrtcCreateProgram: ", api_.nvrtcGetErrorString(code)));
  }
  ~Program() { api_.nvrtcDestroyProgram(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  int compile(const std::string& architecture, bool check) {
    const std::string option = "--gpu-architecture=" + architecture;
    const std::vector<std::string> more = code_options(check);
    std::vector<const char*> options = {option.c_str()};
    for (const std::string& one : more) options.push_back(one.c_str());
    return api_.nvrtcCompileProgram(program_, static_cast<int>(options.size()), options.data());
  }

  // Log and PTX end with a zero, which is not part of the text.
  std::string log() {
    std::string log = fetch<std::string>(api_.nvrtcGetProgramLogSize, api_.nvrtcGetProgramLog);
    while (!log.empty() && log.back() == '\0') log.pop_back();
    return log;
  }

  std::vector<std::byte> image(bool ptx) {
    return ptx ? fetch<std::vector<std::byte>>(api_.nvrtcGetPTXSize, api_.nvrtcGetPTX)
               : fetch<std::vector<std::byte>>(api_.nvrtcGetCUBINSize, api_.nvrtcGetCUBIN);
  }

 private:
  template <class Bytes>
  Bytes fetch(int (*size_of)(void*, std::size_t*), int (*read)(void*, char*)) {
    std::size_t size = 0;
    if (size_of(program_, &size) != 0 || size == 0) return {};
    Bytes bytes(size, typename Bytes::value_type{});
    if (read(program_, reinterpret_cast<char*>(bytes.data())) != 0) return {};
    return bytes;
  }

  const NvrtcApi& api_;
  void* program_ = nullptr;
};

std::string list_of(const std::vector<int>& archs) {
  return joined(archs, ", ", [](int arch) { return str_cat("sm_", arch); });
}

[[noreturn]] void throw_compile_failure(const NvrtcLibrary& library, int code,
                                        const std::string& source, const std::string& name,
                                        const Target& target, const std::string& log) {
  const std::string what = library.api.nvrtcGetErrorString(code);
  if (code == kBuiltinFailure) {
    throw ToolchainError(str_cat("NVRTC ", library.version(), " cannot open libnvrtc-builtins.so.",
                                 library.version(), ": it must be in the folder of ",
                                 library.path.empty() ? "libnvrtc.so" : library.path, "\n", log));
  }
  const std::string first = diagnosis(source, log);
  const std::string message =
      str_cat(first, first.empty() ? "" : "\n", "compiling ", name, " for ", to_string(target),
              " with NVRTC ", library.version(), " failed (", what, "):\n", shortened(log), "\n",
              excerpt(source, log));
  if (code != kCompilationError && log.find("error") == std::string::npos)
    throw ToolchainError(message);
  throw CompileError(message, log, numbered_sources(source, log));
}

// The version call returns no build number, but the header of a PTX text has it.
std::string build_of(const NvrtcLibrary& library) {
  Program program(library.api, "", "build");
  const int newest = library.archs.back();
  if (const int code = program.compile(str_cat("compute_", newest), false))
    throw_compile_failure(library, code, "", "an empty file", Target::cuda(newest), program.log());
  const std::vector<std::byte> ptx = program.image(true);
  std::istringstream lines(std::string(reinterpret_cast<const char*>(ptx.data()), ptx.size()));
  std::string build;
  for (std::string line; std::getline(lines, line) && line.starts_with("//");) {
    if (line.size() > 3) build += line.substr(3) + "\n";
  }
  return build;
}

constexpr char kForked[] =
    "cannot use NVRTC in a process that was forked after its parent had used NVRTC: it may hang. "
    "Compile GPU kernels before fork(), or start a new process (spawn).";

}  // namespace

std::string architecture_option(const NvrtcLibrary& library, const Target& target) {
  const auto newer = std::upper_bound(library.archs.begin(), library.archs.end(), target.sm);
  if (newer == library.archs.begin()) {
    throw ToolchainError(str_cat("NVRTC ", library.version(), " cannot compile for ",
                                 to_string(target), ": it supports ", list_of(library.archs),
                                 ". Install an older NVRTC for this GPU."));
  }
  const int best = *(newer - 1);
  return str_cat(best == target.sm ? "sm_" : "compute_", best);
}

// The result of NVRTC for "sm_90" or "compute_90".
std::vector<std::byte> NvrtcCompiler::run(const std::string& source, const std::string& name,
                                          const Target& target, const std::string& architecture,
                                          std::string& log) {
  if (forked_after(ForkSensitive::nvrtc)) throw ToolchainError(kForked);
  const NvrtcLibrary& library = opened().library;
  Program program(library.api, source, name);
  const int code = program.compile(architecture, settings_.check);
  log = program.log();
  if (code != 0) throw_compile_failure(library, code, source, name, target, log);
  std::vector<std::byte> image = program.image(architecture.starts_with("compute_"));
  // Note: after a failure NVRTC reports success and size 0 here.
  if (image.empty()) throw ToolchainError(str_cat("NVRTC returned an empty binary for ", name));
  return image;
}

Binary NvrtcCompiler::compile(const std::string& source, const std::string& name,
                              const Target& target) {
  Binary binary;
  binary.image =
      run(source, name, target, architecture_option(opened().library, target), binary.log);
  binary.resources = parse_resources(binary.log);
  return binary;
}

std::string NvrtcCompiler::ptx(const std::string& source, const std::string& name,
                               const Target& target) {
  std::string architecture = architecture_option(opened().library, target), log;
  if (architecture.starts_with("sm_")) architecture.replace(0, 3, "compute_");
  std::string ptx = text_of(run(source, name, target, architecture, log));
  while (ptx.ends_with('\0')) ptx.pop_back();
  return ptx;
}

const std::string& NvrtcCompiler::identity(const Target& target) {
  const Opened& nvrtc = opened();
  const std::string options =
      architecture_option(nvrtc.library, target) + code_options_text(settings_.check);
  std::lock_guard lock(mutex_);
  const auto [known, added] = identities_.try_emplace(target);
  if (added) {
    known->second =
        str_cat("NVRTC ", nvrtc.library.version(), "\n", nvrtc.build, "options: ", options);
  }
  return known->second;
}

bool NvrtcCompiler::available(const Target& target) {
  std::string problem;
  const Opened* const nvrtc = open(problem);
  return nvrtc != nullptr && target.sm >= nvrtc->library.archs.front();
}

Fitness NvrtcCompiler::fitness(const std::string& identity, const Target&) const {
  if (!identity.starts_with("NVRTC ")) return {.problem = "its compiler is not NVRTC"};
  if (!identity.ends_with(code_options_text(settings_.check)))
    return {.problem = "its compiler options differ"};
  return {.rank = 1};
}

void NvrtcCompiler::add_folder(const std::string& folder) {
  std::lock_guard lock(mutex_);
  settings_.nvrtc_search.push_back(folder);
}

// Null with the problem if there is no usable NVRTC. Holds the lock while opening: other threads need the library too,
// and a child must not be forked while the loader or NVRTC is in the middle of it. It locks nothing else meanwhile.
const NvrtcCompiler::Opened* NvrtcCompiler::open(std::string& problem) try {
  std::lock_guard lock(mutex_);
  if (opened_) return opened_.get();
  if (forked_after(ForkSensitive::nvrtc)) {
    problem = kForked;
    return nullptr;
  }
  auto library = find_nvrtc(settings_, driver_version_ ? driver_version_() : 0, problem);
  if (!library) return nullptr;
  note_used(ForkSensitive::nvrtc);
  const std::string build = build_of(*library);
  opened_ = std::make_unique<const Opened>(Opened{std::move(*library), build});
  return opened_.get();
} catch (const Error& error) {
  problem = error.what();
  return nullptr;
}

const NvrtcCompiler::Opened& NvrtcCompiler::opened() {
  std::string problem;
  if (const Opened* const nvrtc = open(problem)) return *nvrtc;
  throw ToolchainError(problem);
}

}  // namespace jitstep::jit
