// Reads an optimizer's archive without the optimizer and its parameters, for `jitstep convert`.
#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "jitstep/options.h"
#include "jitstep/param_state.h"

namespace jitstep {
class CheckpointFolder;

/// One parameter group.
struct OutlinedGroup {
  std::unique_ptr<Options> options;  // values and formats, as saved
  /// Unbound states. Null if no state was saved, and for a duplicate parameter.
  std::vector<std::unique_ptr<ParamState>> states;
  /// Tensors with the parameters' shape, strides and dtype, but undefined values. Without elements if there is no
  /// state. Duplicate parameters are the same tensor.
  std::vector<torch::Tensor> parameters;
};

/// The rule of each group, or one rule for all. Empty if the archive does not name it, as torch's archives. Throws a
/// c10::Error if the archive has no optimizer in torch's current layout.
std::vector<std::string> archived_rules(torch::serialize::InputArchive& archive);

/// Reads the groups. `rules`: one for all groups, or one per group. `folder`: whose index the archive is, or null.
/// Throws a c10::Error for a damaged archive and for unknown rules and codecs.
std::vector<OutlinedGroup> read_outline(torch::serialize::InputArchive& archive,
                                        const std::vector<std::string>& rules,
                                        CheckpointFolder* folder = nullptr);

}  // namespace jitstep
