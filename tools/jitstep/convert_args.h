// The flags of `jitstep convert`. The tool declares them for its help. The program jitstep-convert reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "optimizer_args.h"

namespace CLI {
class App;
}

namespace jitstep::tool {

/// The values of the flags, not validated.
struct ConvertArgs {
  std::string from, to;
  OptimizerArgs formats;  // rule, state, weights
  std::optional<std::int64_t> min_quantized_size;
  std::vector<std::string> load;
  int ranks = 0;  // 0: write a file
  bool overwrite = false, json = false;
};

inline constexpr const char* kConvertSummary = "Convert a checkpoint to other formats";

/// Declares the flags, and sets the footer.
void add_convert_args(CLI::App& command, ConvertArgs& args);

}  // namespace jitstep::tool
