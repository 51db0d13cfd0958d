#include "jit/compiler/host_compiler.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "jit/base/digest.h"
#include "jit/base/file_io.h"
#include "jit/base/process.h"
#include "jit/base/scratch.h"
#include "jit/base/text.h"
#include "jit/compiler/compile_failure.h"
#include "jit/compiler/compiler_identity.h"
#include "jit/compiler/isa.h"
#include "jit/compiler/remembered_identity.h"
#include "jit/compiler/zig.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

using Words = std::vector<std::string>;

constexpr int kNativeRank = 100;  // above all baselines

// The value of -march.
std::string cpu_of(const Settings& settings) {
  return settings.cpu.empty() ? "native" : settings.cpu;
}

// Options that determine results. Never -ffast-math: loading an object that was linked with it changes the rounding
// mode of the whole process.
Words code_flags(const Target& target, bool check, const std::string& cpu) {
  Words flags = {"-std=c++20",         "-fPIC",
                 "-ffp-contract=off",  "-fno-math-errno",
                 "-fno-trapping-math", "-fvisibility=hidden"};
  // Errors for what NVRTC rejects by default, for unset variables and missing return statements, and for implicit
  // conversions of double to `real`.
  // Not -Wmaybe-uninitialized, because its results differ between versions of g++.
  // Checked kernels report unset variables themselves, by the names that the rule's author knows.
  flags.insert(flags.end(),
               {"-pedantic-errors", check ? "-Wno-uninitialized" : "-Werror=uninitialized",
                "-Wno-maybe-uninitialized", "-Werror=return-type", "-Werror=float-conversion"});
  // Without -fno-elide-constructors, return values are constructed in place and never filled with the pattern.
  if (check)
    flags.insert(flags.end(),
                 {"-DJITSTEP_CHECK", "-ftrivial-auto-var-init=pattern", "-fno-elide-constructors"});
  // Checked kernels run only a few times, so most of the time is compile time. From -O1 on, g++ does not fill a
  // variable that only some branches set.
  if (target.kind == Target::Kind::cpu) {
    flags.insert(flags.end(), {check ? "-O0" : "-O3", "-march=" + cpu});
  } else {
    flags.insert(flags.end(), {"-O1", "-DJITSTEP_EMULATION"});
  }
  return flags;
}

// clang also needs these for the errors of g++. They change no code, so they are not in the identity. Its
// -Wfloat-conversion does not include double to `real`. Without a limit, it reports all errors.
Words diagnostics_of_clang() {
  return {"-Werror=implicit-float-conversion", "-Wno-implicit-int-float-conversion",
          "-ferror-limit=0", "-Wno-unknown-warning-option"};
}

// An emulated kernel calls functions of the process that loads it, so only CPU kernels must have no undefined symbols.
Words link_flags(const Target& target) {
  Words flags = {"-shared", "-Wl,--as-needed"};
  if (target.kind == Target::Kind::cpu) flags.push_back("-Wl,--no-undefined");
  return flags;
}

// A wrapper script may behave differently when it compiles, so its content is part of the identity.
std::string wrapper_line(const std::string& program) {
  const FileHandle file(::open(program.c_str(), O_RDONLY | O_CLOEXEC));
  char start[2] = {};
  if (!file || ::pread(file.get(), start, 2, 0) != 2 || start[0] != '#' || start[1] != '!')
    return {};
  const auto content = read_all(file.get());
  return content ? str_cat("wrapper: ", sha256_hex(text_of(*content)), "\n") : std::string();
}

// The last line of an identity.
std::string options_line(const Target& target, bool check, const std::string& cpu) {
  return str_cat("options: ", joined(code_flags(target, check, cpu), " "), " ",
                 joined(link_flags(target), " "));
}

std::string options_line(const Target& target, const Settings& settings) {
  return options_line(target, settings.check, cpu_of(settings));
}

// The complete environment of a compiler, both for its identity and for compiling: English messages, a private folder
// for temporary files, and the PATH where the compiler was found, for assembler and linker. Other variables (CPATH,
// COMPILER_PATH, DEPENDENCIES_OUTPUT, ...) would change binaries without changing the key.
Variables environment(const Settings& settings, const std::string& folder,
                      const std::string& program) {
  Variables variables = settings.compiler_variables;
  variables.insert(variables.end(), {{"LC_ALL", "C"}, {"PATH", settings.path}, {"TMPDIR", folder}});
  if (is_zig(program)) add_zig_folders(variables, settings, folder);
  return variables;
}

// Runs the compiler with the time limit.
Finished run_compiler(const Words& words, std::string_view input, const Settings& settings,
                      const std::string& folder, std::size_t output_ends) {
  Finished run = run_program(words, input, environment(settings, folder, words[0]),
                             {std::chrono::seconds(settings.compile_seconds), output_ends});
  if (run.stopped) throw_timeout(words, settings.compile_seconds, run);
  return run;
}

// Refuses options such as -Ofast of a wrapper or a specs file: jitstep's own do not switch them off.
void refuse_loose_arithmetic(const std::string& program, const std::string& identity) {
  const std::string loose = loose_arithmetic(identity);
  if (loose.empty()) return;
  throw ToolchainError(str_cat("cannot use the compiler ", program, ": it adds the option ", loose,
                               ", which changes results. Remove the option from the wrapper or "
                               "specs file, or set JITSTEP_CXX to another compiler."));
}

std::vector<std::byte> read_image(const std::string& path) {
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  return read_all(file.get()).value_or(std::vector<std::byte>());
}

}  // namespace

HostCompiler::HostCompiler(Settings settings) : settings_(std::move(settings)) {}

// The file that the compiler writes with `options` in addition to the code options.
std::vector<std::byte> HostCompiler::run(const std::string& source, const std::string& name,
                                         const Target& target, const Names& options,
                                         std::string& log, std::size_t output_ends) {
  const PrivateFolder folder = work_folder();
  const std::string out = folder.path() + "/kernel.so";
  Words words = command_of(program());
  for (const Words& more :
       {Words{"-x", "c++", "-pipe", "-fdiagnostics-color=never"},
        flags_for(words[0], code_flags(target, settings_.check, cpu_of(settings_))),
        is_clang(target) ? diagnostics_of_clang() : Words(), options, Words{"-o", out, "-"}}) {
    words.insert(words.end(), more.begin(), more.end());
  }
  const Finished run = run_compiler(words, source, settings_, folder.path(), output_ends);
  std::vector<std::byte> written = read_image(out);
  const bool failed = run.status > 0 || (run.status < 0 && written.empty());
  if (failed) throw_compile_failure(source, name, target, run, folder.path());
  if (written.empty()) {
    throw ToolchainError(
        str_cat(words[0], " wrote no binary for ", name, ". Its output: ", run.output));
  }
  log = run.output;
  return written;
}

Binary HostCompiler::compile(const std::string& source, const std::string& name,
                             const Target& target) {
  return compile(source, name, target, nullptr);
}

Binary HostCompiler::compile(const std::string& source, const std::string& name,
                             const Target& target, std::string* loops) {
  Binary binary;
  binary.image = run_with_loops(source, name, target, link_flags(target), binary.log, loops);
  return binary;
}

// -g1 adds line information and does not change the code.
std::string HostCompiler::assembly(const std::string& source, const std::string& name,
                                   const Target& target, std::string* loops) {
  std::string log;
  return text_of(run_with_loops(source, name, target, {"-S", "-g1"}, log, loops));
}

bool HostCompiler::is_clang(const Target& target) {
  return identity(target).find("clang version") != std::string::npos;
}

// g++ writes the report to a file. clang writes remarks to its output, between its warnings.
std::vector<std::byte> HostCompiler::run_with_loops(const std::string& source,
                                                    const std::string& name, const Target& target,
                                                    Names options, std::string& log,
                                                    std::string* loops) {
  if (loops == nullptr) return run(source, name, target, options, log);
  if (is_clang(target)) {
    *loops = loop_report(source, name, target);
    return run(source, name, target, options, log);
  }
  const PrivateFolder folder(scratch_folders(settings_));
  const std::string path = folder.path() + "/loops";
  options.push_back("-fopt-info-vec-missed=" + path);
  std::vector<std::byte> written = run(source, name, target, options, log);
  *loops = text_of(read_image(path));
  return written;
}

// The output of clang must be complete, because it has the remarks.
std::string HostCompiler::loop_report(const std::string& source, const std::string& name,
                                      const Target& target) {
  std::string log, loops;
  if (is_clang(target)) {
    const Names options = {"-S", "-Rpass-missed=loop-vectorize", "-Rpass-analysis=loop-vectorize"};
    run(source, name, target, options, log, Limits{}.output_ends);
    return log;
  }
  run_with_loops(source, name, target, {"-S"}, log, &loops);
  return loops;
}

const std::string& HostCompiler::identity(const Target& target) {
  {
    std::lock_guard lock(mutex_);
    if (const auto known = identities_.find(target); known != identities_.end()) {
      return known->second;
    }
  }
  // slow, so without the lock; computing it twice is harmless
  std::string found = read_identity(target);
  refuse_loose_arithmetic(program(), found);
  std::lock_guard lock(mutex_);
  return identities_.emplace(target, std::move(found)).first->second;
}

HostCompiler::Names HostCompiler::names() const {
  return settings_.cxx.empty() ? Names{"c++", "g++", "clang++"} : Names{settings_.cxx};
}

std::string HostCompiler::find() const {
  for (const std::string& name : names()) {
    if (std::string found = find_program(name, settings_.path); !found.empty()) return found;
  }
  return settings_.cxx.empty() ? find_program(settings_.packaged_cxx, "") : "";
}

std::string HostCompiler::program() const {
  if (std::string found = find(); !found.empty()) return found;
  const char* what = settings_.cxx.empty() ? "" : " (JITSTEP_CXX)";
  const std::string first = settings_.cxx.substr(0, settings_.cxx.find(' '));
  if (first != settings_.cxx && !find_program(first, settings_.path).empty())
    throw MissingCompilerError(
        str_cat("no host C++ compiler: there is no program \"", settings_.cxx,
                "\". JITSTEP_CXX takes one program without arguments. Set it to the path of a "
                "script with the lines\n#!/bin/sh\nexec ",
                settings_.cxx, " \"$@\""));
  if (settings_.cxx.find('/') != std::string::npos)
    throw MissingCompilerError(
        str_cat("no host C++ compiler: JITSTEP_CXX is ", settings_.cxx, ", ",
                ::access(settings_.cxx.c_str(), F_OK) != 0 ? std::strerror(errno)
                                                           : "which is not an executable file",
                ". Set JITSTEP_CXX to the path of g++ or clang++, or unset it."));
  throw MissingCompilerError(
      str_cat("no host C++ compiler: cannot find ", joined(names(), ", "), what, " in PATH ",
              settings_.path,
              ". Install one (apt install g++, or pip install ziglang), or set JITSTEP_CXX to its "
              "path."));
}

// The first call also removes folders that killed programs left.
PrivateFolder HostCompiler::work_folder() const {
  const std::vector<std::string> parents = scratch_folders(settings_);
  if (!swept_.exchange(true)) sweep_scratch(parents);
  return PrivateFolder(parents);
}

// Uses the options of a compile, so that a wrapper changes them in the same way.
std::string HostCompiler::read_identity(const Target& target) const {
  Words words = command_of(program());
  for (const Words& more :
       {flags_for(words[0], code_flags(target, settings_.check, cpu_of(settings_))),
        Words{"-x", "c++", "-E", "-v", "-"}}) {
    words.insert(words.end(), more.begin(), more.end());
  }
  const RememberedIdentity remembered(settings_, words, environment(settings_, "", words[0]));
  if (const auto known = remembered.find()) return *known + options_line(target, settings_);
  const PrivateFolder folder = work_folder();
  const Finished run = run_compiler(words, "", settings_, folder.path(), kOutputEnds);
  throw_if_killed(run, "while it reported its version");
  const std::string found = resolved_identity(run.output);
  if (run.status > 0 || found.empty()) {
    throw ToolchainError(
        str_cat(words[0], " is not a usable g++ or clang++ (", joined(words, " "),
                "). Set JITSTEP_CXX to one",
                baseline_level(settings_.cpu) > 0 ? " (g++ 11 or clang 12 for a baseline)" : "",
                ". Its output: ", run.output));
  }
  const std::string resolved = found + wrapper_line(words[0]);
  remembered.store(resolved, run.output);
  return resolved + options_line(target, settings_);
}

// Native code ranks highest, then the highest baseline.
Fitness HostCompiler::fitness(const std::string& identity, const Target& target) const {
  const std::string cpu = cpu_in(identity);
  if (!settings_.cpu.empty() && !cpu.empty() && cpu != settings_.cpu)
    return {.problem =
                str_cat("it was compiled for ", cpu, ", and JITSTEP_CPU is ", settings_.cpu)};
  if (!identity.ends_with("\n" + options_line(target, settings_.check, cpu)))
    return {.problem = "its compiler options differ"};
  if (const std::string loose = loose_arithmetic(identity); !loose.empty())
    return {.problem = str_cat("its compiler got the option ", loose, ", which changes results")};
  if (const std::string lacking = this_machine_lacks(identity); !lacking.empty())
    return {.problem = str_cat("it was compiled for another CPU: this machine lacks ", lacking)};
  const int level = baseline_level(cpu);
  return {.rank = level == 0 ? kNativeRank : level, .baseline = level != 0};
}

}  // namespace jitstep::jit
