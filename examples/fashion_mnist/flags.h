// What the command line says. Knows neither torch nor jitstep.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fashion_mnist {

struct Flags {
  std::vector<std::string> optimizers;  // names; empty: the default list, unless specs are given
  std::vector<std::string> specs;       // optimizers as JSON text
  std::vector<std::string> rules;       // files with rules that the specs may name
  std::string state = "fp32";           // of the optimizers whose name has no codec
  std::optional<double> lr;             // absent: each rule's own default
  int epochs = 1;
  std::int64_t batch = 128;
  std::int64_t limit = 0;  // training images used; 0: all
  std::string device = "cpu";
  std::uint64_t seed = 1;
  int threads = 0;  // 0: torch's own choice
  std::filesystem::path data = "/usr/share/datasets/fashion-mnist";
  std::filesystem::path out = ".";
};

/// Reads the command line into `flags`. Returns the exit code when the program is to end here:
/// 0 after --help, 2 after a bad flag, which has then been explained on standard error.
std::optional<int> parse_flags(int argc, char** argv, Flags& flags);

}  // namespace fashion_mnist
