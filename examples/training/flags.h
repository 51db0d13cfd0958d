// What the command lines of all training programs say. Knows neither torch nor jitstep.
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
  std::vector<std::string> optimizers;  // names; empty: the default list, unless specs are given
  std::vector<std::string> specs;       // optimizers as JSON text
  std::vector<std::string> rules;       // files with rules that the specs may name
  std::string state = "fp32";           // of the optimizers whose name has no codec
  std::string dtype = "float32";        // of the parameters
  std::optional<double> lr;             // absent: each rule's own default
  std::int64_t batch = 0;               // examples in a step; the program's own default
  std::string device = "cpu";
  std::uint64_t seed = 1;
  int threads = 0;  // 0: torch's own choice
  std::filesystem::path data;
  std::filesystem::path out = ".";
};

/// A command line with the flags that all programs share; each adds its own.
void add_flags(CLI::App& app, Flags& flags);

/// Reads the command line. Returns the exit code when the program is to end here: 0 after --help, 2 after a bad
/// flag, which has then been explained on standard error.
std::optional<int> parse(CLI::App& app, int argc, char** argv);

}  // namespace training
