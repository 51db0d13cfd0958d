// The table, the JSON file and the comparison of torch's AdamW with ours.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "flags.h"
#include "run.h"
#include "task.h"

namespace training {

/// Largest relative differences of the losses of torch's and our fp32 AdamW.
struct LossDifference {
  double early = 0;       // over the first 10 steps
  double largest = 0;     // over the first 100
  std::size_t steps = 0;  // how many were compared, if fewer
  double lr = 0;
  bool within_bounds() const;
};

/// Nothing when one of the two was not trained.
std::optional<LossDifference> compare_losses(const std::vector<Run>& runs);

std::string sentence(const LossDifference& difference);
std::string table(const std::vector<Run>& runs);

/// Makes the output folder and checks that it takes files: before the training, not after it.
void prepare_out(const std::filesystem::path& folder);

/// Writes PROGRAM.json into the output folder and returns its path.
std::filesystem::path write_json(const Flags& flags, const Problem& problem,
                                 const std::vector<Run>& runs,
                                 const std::optional<LossDifference>& difference);

}  // namespace training
