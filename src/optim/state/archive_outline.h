// What an archive says of the optimizer that it was saved by, for who has neither that nor its parameters.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "jitstep/options.h"
#include "jitstep/param_state.h"

namespace jitstep {

/// One parameter group.
struct OutlinedGroup {
  std::unique_ptr<Options> options;  // values and formats, as they were saved
  /// Unbound; null: none was saved, or the parameter is listed again.
  std::vector<std::unique_ptr<ParamState>> states;
  /// As the states' were, but for their values, which are undefined; without elements where there is no state. One that is
  /// listed again is the same tensor.
  std::vector<torch::Tensor> parameters;
};

/// The rule of each group; none if the archive does not say, as torch's own do not. A c10::Error if it holds no
/// optimizer in torch's layout of today.
std::vector<std::string> archived_rules(torch::serialize::InputArchive& archive);

/// The groups, of these rules: one for all, or one for each. A c10::Error for an archive that is damaged, and for rules
/// and codecs that are not there.
std::vector<OutlinedGroup> read_outline(torch::serialize::InputArchive& archive,
                                        const std::vector<std::string>& rules);

}  // namespace jitstep
