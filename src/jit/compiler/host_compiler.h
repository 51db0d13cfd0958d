// The host's C++ compiler as a Compiler, for the targets cpu and emulated.
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

/// Runs g++ or clang++ as a program. Safe in a forked child.
class HostCompiler : public Compiler {
 public:
  explicit HostCompiler(Settings settings);

  Binary compile(const std::string& text, const std::string& name, const Target& target) override;
  const std::string& identity(const Target& target) override;
  bool available(const Target&) override { return !find().empty(); }
  Fitness fitness(const std::string& identity, const Target& target) const override;

  /// The same, and loop_report() if `loops` is not null, by one run of g++ and by two of clang.
  Binary compile(const std::string& text, const std::string& name, const Target& target,
                 std::string* loops);

  /// The assembly of the same code, with `.loc` lines that name the source. With `loops`, also loop_report(), by one
  /// run of g++ and by two of clang.
  std::string assembly(const std::string& text, const std::string& name, const Target& target,
                       std::string* loops = nullptr);

  /// The compiler's report on each loop: vectorized, or the reason why not. scalar_loops() reads it.
  std::string loop_report(const std::string& text, const std::string& name, const Target& target);

  /// The path of the program. Throws a MissingCompilerError with installation advice if there is none.
  std::string program() const;

 private:
  using Names = std::vector<std::string>;

  // The first and the last lines of long error output are enough.
  static constexpr std::size_t kOutputEnds = 64 << 10;

  Names names() const;       // in order of search
  std::string find() const;  // the program's path; empty if there is none
  std::vector<std::byte> run(const std::string& text, const std::string& name, const Target& target,
                             const Names& options, std::string& log,
                             std::size_t output_ends = kOutputEnds);
  bool is_clang(const Target& target);
  std::vector<std::byte> run_with_loops(const std::string& text, const std::string& name,
                                        const Target& target, Names options, std::string& log,
                                        std::string* loops);
  PrivateFolder work_folder() const;
  std::string read_identity(const Target& target) const;

  Settings settings_;
  ForkSafeMutex mutex_;
  std::map<Target, std::string> identities_;
  mutable std::atomic<bool> swept_ = false;
};

}  // namespace jitstep::jit
