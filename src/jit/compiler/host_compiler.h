// The machine's C++ compiler as a Compiler: targets cpu and emulated.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "jit/base/fork_guard.h"
#include "jit/base/scratch.h"
#include "jitstep/jit/compiler.h"
#include "jitstep/jit/settings.h"

namespace jitstep::jit {

/// Runs g++ or clang++ as a program; safe in a forked child.
class HostCompiler : public Compiler {
 public:
  explicit HostCompiler(Settings settings);

  Binary compile(const std::string& text, const std::string& name, const Target& target) override;
  const std::string& identity(const Target& target) override;
  bool available(const Target&) override { return !find().empty(); }
  Fitness fitness(const std::string& identity, const Target& target) const override;

  /// The same text in assembly, of the same code, with the `.loc` lines that say where it comes from.
  std::string assembly(const std::string& text, const std::string& name, const Target& target);

  /// What the compiler says of each loop of the text: whether it made vectors of it, else why not. read_loops() reads it.
  std::string loop_report(const std::string& text, const std::string& name, const Target& target);

  /// The path of the program, or an Error that says what to install.
  std::string program() const;

 private:
  using Names = std::vector<std::string>;

  // A megabyte of errors says no more than its first and last lines.
  static constexpr std::size_t kOutputEnds = 64 << 10;

  Names names() const;       // looked for in this order
  std::string find() const;  // the program's path; empty if there is none
  std::vector<std::byte> run(const std::string& text, const std::string& name, const Target& target,
                             const Names& options, std::string& log,
                             std::size_t output_ends = kOutputEnds) const;
  PrivateFolder work_folder() const;
  std::string read_identity(const Target& target) const;

  Settings settings_;
  ForkSafeMutex mutex_;
  std::map<Target, std::string> identities_;
  mutable std::atomic<bool> swept_ = false;
};

/// The code-deciding words of a compiler's `-E -v` report: version, machine, the ISA flags that -march=native stands for,
/// and the others that reach the compiler proper. No paths.
std::string resolved_identity(const std::string& report);

}  // namespace jitstep::jit
