// The table, the JSON file and the comparison of torch's AdamW with jitstep's.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "flags.h"
#include "run.h"
#include "task.h"

namespace training {

/// The largest relative differences between the losses of torch's and jitstep's fp32 AdamW.
struct LossDifference {
  double early = 0;       // over the first 10 steps
  double largest = 0;     // over the first `steps` steps
  std::size_t steps = 0;  // number of compared steps, at most 100
  double lr = 0;
  bool within_bounds() const;
};

/// Empty if one of the two was not trained.
std::optional<LossDifference> compare_losses(const std::vector<Run>& runs);

std::string sentence(const LossDifference& difference);
std::string table(const std::vector<Run>& runs);

/// Creates the output folder and checks that it is writable. Call it before training, so that no result is lost.
void prepare_out(const std::filesystem::path& folder);

/// Writes PROGRAM.json to the output folder and returns its path.
std::filesystem::path write_json(const Flags& flags, const Problem& problem,
                                 const std::vector<Run>& runs,
                                 const std::optional<LossDifference>& difference);

}  // namespace training
