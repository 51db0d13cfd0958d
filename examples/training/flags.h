// The flags of all training programs. Uses neither torch nor jitstep.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace training {

struct Flags {
  std::vector<std::string> optimizers;  // names; empty without specs: the default list
  std::vector<std::string> specs;       // optimizers as JSON text
  std::vector<std::string> rules;       // files with rules that the specs may name
  std::string state = "fp32";           // for optimizers whose name has no state format
  std::string dtype = "float32";        // of the parameters
  std::optional<double> lr;             // empty: the default below
  std::int64_t batch = 0;               // examples per step; each program sets its default
  std::string device = "cpu";
  std::uint64_t seed = 1;
  int threads = 0;  // 0: torch's default
  std::filesystem::path data;
  std::filesystem::path out = ".";
};

/// Declares the flags that all programs share.
void add_flags(CLI::App& app, Flags& flags);

/// Reads the command line. Returns an exit status if the program must end: 0 after --help, or 2 after an error in a
/// flag, which it prints to standard error.
std::optional<int> parse(CLI::App& app, int argc, char** argv);

}  // namespace training
