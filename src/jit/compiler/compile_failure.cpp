#include "jit/compiler/compile_failure.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <sstream>

#include "jit/base/text.h"
#include "jit/compiler/diagnosis.h"
#include "jit/source/source_map.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

std::string free_space(const std::string& folder) {
  std::error_code failure;
  const auto space = std::filesystem::space(folder, failure);
  return failure ? "an unknown number of bytes" : str_cat(space.available >> 10, " KiB");
}

bool says_any(const std::string& line, std::initializer_list<const char*> phrases) {
  return std::any_of(phrases.begin(), phrases.end(),
                     [&](const char* phrase) { return line.find(phrase) != line.npos; });
}

// Advice for a line that reports a lack of resources. Empty for other lines.
std::string advice(const std::string& line, const std::string& folder) {
  if (says_any(line, {"Too many open files"}))
    return "Close files, or raise the limit (ulimit -n).";
  if (says_any(line, {"Cannot allocate memory", "out of memory", "virtual memory exhausted",
                      "Killed signal terminated program", "terminated with signal 9 ["}))
    return "Free memory.";
  if (says_any(line, {"File size limit exceeded", "File too large"}))
    return "Raise the limit on file sizes (ulimit -f).";
  if (says_any(line, {"No space left on device", "Disk quota exceeded", "Read-only file system",
                      "Input/output error", "terminated with signal 7 ["}))
    return str_cat("Free disk space there (", free_space(folder),
                   " are free), or set TMPDIR to a folder on another disk.");
  if (says_any(line, {"terminated with signal 11 [", "terminated with signal 6 ["}))
    return "A program of the compiler crashed. Set JITSTEP_CXX to another compiler.";
  if (says_any(line, {"terminated with signal"})) return "It was stopped. Try again.";
  return "";
}

// The line of the compiler's output that reports a lack of resources, if that caused the failure. A line with a
// location in the source, or a quote of the source, is an error of the source, whatever it contains.
std::string environment_failure(const std::string& source, const std::string& output) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (advice(line, "").empty()) continue;
    if (source.find(line) == source.npos && excerpt(source, line).empty()) return line;
  }
  return {};
}

}  // namespace

void throw_compile_failure(const std::string& source, const std::string& name, const Target& target,
                           const Finished& run, const std::string& folder) {
  throw_if_killed(run, "while compiling " + name);
  if (run.output.find("`__gxx_personality_v0'") != run.output.npos)
    throw ToolchainError(
        str_cat("the host compiler does not link the C++ library. Set JITSTEP_CXX ",
                "to g++ or clang++, not to gcc or clang.\n", run.output));
  if (const std::string line = environment_failure(source, run.output); !line.empty()) {
    throw ToolchainError(str_cat("the host compiler could not compile ", name, ": ", line,
                                 "\nIts work folder is ", folder, ". ", advice(line, folder)));
  }
  const std::string first = diagnosis(source, run.output);
  throw CompileError(
      str_cat(first, first.empty() ? "" : "\n", "compiling ", name, " for ", to_string(target),
              " failed:\n", shortened(run.output), excerpt(source, run.output)),
      run.output, numbered_sources(source, run.output));
}

void throw_if_killed(const Finished& run, const std::string& doing) {
  const int signal = run.status - 128;
  if (signal <= 0 || signal >= NSIG) return;
  const std::string message =
      str_cat("the host compiler was killed by signal ", signal, " (", strsignal(signal), ") ",
              doing, ". The machine may be out of memory.\n", run.output);
  if (signal == SIGSEGV || signal == SIGABRT || signal == SIGILL || signal == SIGBUS)
    throw CompilerFault(message);
  throw ToolchainError(message);
}

void throw_timeout(const std::vector<std::string>& words, std::int64_t seconds,
                   const Finished& run) {
  throw CompilerFault(
      str_cat("the host compiler did not finish within ", seconds,
              " s and was killed: ", joined(words, " "),
              "\nRun this command yourself, set JITSTEP_CXX to another compiler, or set "
              "JITSTEP_COMPILE_SECONDS to a higher limit (0: none). Its output: ",
              run.output));
}

}  // namespace jitstep::jit
