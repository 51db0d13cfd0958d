// Optimizers in torch's archives: torch's own layout, so that torch's optimizers and ours read each
// other's, and what quantised state needs beside it. STATE_FORMAT.md describes it.
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

/// What an archive says about one parameter group.
struct ArchivedGroup {
  std::unique_ptr<Options> options;                 // validated by nobody yet
  std::vector<std::unique_ptr<ParamState>> states;  // one for each parameter, null if it has none
};

/// The states of parameters, and what is written in place of some of them.
struct StatesToSave {
  const StateMap& all;
  const std::map<void*, ParamState>& replaced;
};

/// Writes everything an optimizer needs to go on. `mode`: of its parameters, for rules that have modes.
/// `common`: what it keeps for all parameters, if there is any yet.
void write_archive(torch::serialize::OutputArchive& archive, const Options& defaults,
                   jit::Mode mode, const StatesToSave& states,
                   const std::vector<torch::optim::OptimizerParamGroup>& groups,
                   const std::optional<std::vector<double>>& shared_state);

/// What an archive says of memory that all parameters share; nothing if it says nothing and none of its states has taken
/// a step. A c10::Error if it is not what the rule of these defaults keeps.
std::optional<std::vector<double>> read_shared_state(torch::serialize::InputArchive& archive,
                                                     const Options& defaults,
                                                     const std::vector<ArchivedGroup>& groups);

/// Whether the archive is in torch's layout of today; not if it is of before torch 1.5, or no optimizer's. A c10::Error
/// for a layout or schema that is newer.
bool has_layout(torch::serialize::InputArchive& archive);

/// A c10::Error if the archive is of another rule than these groups, of another layout of torch's or of a newer
/// schema; what else it says means nothing then.
void check_origin(torch::serialize::InputArchive& archive, const Options& defaults,
                  const std::vector<torch::optim::OptimizerParamGroup>& groups);

/// Reads what belongs to these groups of an optimizer with such defaults, ours or torch's of the same
/// name, and changes nothing. A c10::Error if the archive is of another number of groups or parameters.
std::vector<ArchivedGroup> read_archive(
    torch::serialize::InputArchive& archive, const Options& defaults,
    const std::vector<torch::optim::OptimizerParamGroup>& groups);

/// The states of a group's parameters in their order, unbound; null where the archive has none.
std::vector<std::unique_ptr<ParamState>> read_states(torch::serialize::InputArchive& group,
                                                     torch::serialize::InputArchive& states,
                                                     const Options& options, std::size_t count);

/// The mode in which an optimizer was saved; training if the archive does not say.
jit::Mode read_mode(torch::serialize::InputArchive& archive);

/// The tensor ids of the loaded states. Each names random bits and a place in sums: a c10::Error if two
/// agree or one is none.
std::set<int> distinct_ids(const std::vector<ArchivedGroup>& groups);

}  // namespace jitstep
