// Optimizers in torch's archives. The layout is torch's, so that torch's optimizers and ours can read each other's
// archives. Additional entries describe quantized state. STATE_FORMAT.md has the format.
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "jitstep/jit/step.h"
#include "jitstep/options.h"
#include "jitstep/param_state.h"

namespace jitstep {

using StateMap = ska::flat_hash_map<void*, std::unique_ptr<torch::optim::OptimizerParamState>>;

/// One parameter group, as read from an archive.
struct ArchivedGroup {
  std::unique_ptr<Options> options;                 // not validated yet
  std::vector<std::unique_ptr<ParamState>> states;  // one for each parameter, null if it has none
};

/// The states of parameters, and replacements that are written instead of some of them.
struct StatesToSave {
  const StateMap& all;
  const std::map<void*, ParamState>& replaced;
};

/// Writes everything an optimizer needs to continue. `mode` is written for rules that have modes. `shared_state`: the
/// values of shared state, if they exist yet. `parts`: for the index of a folder, the text of its PartIndex.
void write_archive(torch::serialize::OutputArchive& archive, const Options& defaults,
                   jit::Mode mode, const StatesToSave& states,
                   const std::vector<torch::optim::OptimizerParamGroup>& groups,
                   const std::optional<std::vector<double>>& shared_state,
                   const std::string& parts = "");

/// The shared state in an archive. Empty if the archive has none and none of its states has taken a step. Throws a
/// c10::Error if the values are not those that the rule of these defaults declares.
std::optional<std::vector<double>> read_shared_state(torch::serialize::InputArchive& archive,
                                                     const Options& defaults,
                                                     const std::vector<ArchivedGroup>& groups);

/// True if the archive has torch's current layout. False if it is older than torch 1.5 or contains no optimizer. Throws
/// a c10::Error for another layout or a newer schema.
bool has_layout(torch::serialize::InputArchive& archive);

/// Throws a c10::Error if the archive is of another rule than these groups, has another layout of torch or a newer
/// schema. Call it first: the other entries have no meaning then.
void check_origin(torch::serialize::InputArchive& archive, const Options& defaults,
                  const std::vector<torch::optim::OptimizerParamGroup>& groups);

/// Reads the groups of an optimizer with these defaults, saved by jitstep or by torch's optimizer of the same name.
/// Changes nothing. Throws a c10::Error if the archive has another number of groups or parameters.
std::vector<ArchivedGroup> read_archive(
    torch::serialize::InputArchive& archive, const Options& defaults,
    const std::vector<torch::optim::OptimizerParamGroup>& groups);

/// The unbound states of a group's parameters, in order. Null for a parameter without state.
std::vector<std::unique_ptr<ParamState>> read_states(torch::serialize::InputArchive& group,
                                                     torch::serialize::InputArchive& states,
                                                     const Options& options, std::size_t count);

/// The mode in which an optimizer was saved. `train` if the archive has no mode.
jit::Mode read_mode(torch::serialize::InputArchive& archive);

/// The tensor ids of the loaded states. An id selects the parameter's random bits and its position in sums. Throws a
/// c10::Error if two ids are equal or one is out of range.
std::set<int> distinct_ids(const std::vector<ArchivedGroup>& groups);

}  // namespace jitstep
