// A checkpoint in a folder: an archive as a single process writes it, but without the tensors that have values per
// element. These are in parts. STATE_FORMAT.md has the format.
#pragma once

#include <torch/serialize/archive.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "jit/step/partition.h"
#include "optim/state/param_state_data.h"
#include "optim/state/part_file.h"
#include "optim/state/part_index.h"
#include "optim/tensor/errors.h"

namespace jitstep {

// ---- writing

/// Describes the tensors of a parameter's state that go to parts. `elements`: of each part. `state`: of the parameter
/// or a part of it, bound.
PartedState parted_state(const ParamState::Data& state, const torch::Tensor& parameter,
                         std::vector<std::int64_t> elements);

/// Adds the tensors of one part of a state. `part`: buffers of the elements in it.
void add_records(const ParamState::Data& state, const StateBuffers& part, const PartedState& parted,
                 const std::string& state_name, std::vector<PartRecord>& records);

/// Leaves everything but these tensors, for the index: on the CPU, as the state of the whole parameter.
void keep_outline(ParamState::Data& state, const torch::Tensor& parameter,
                  const PartedState& parted);

// ---- reading

/// Reads a folder. Not thread-safe.
class CheckpointFolder {
 public:
  /// Opens the index of a folder. Throws a c10::Error that names the file if there is none, or if it is damaged.
  explicit CheckpointFolder(std::string folder);

  /// States in it have empty tensors, which read() fills in.
  torch::serialize::InputArchive& archive() { return archive_; }

  /// Where the state of a parameter is. Null if the archive has all of it.
  const PartedState* find(const ParameterName& parameter) const;

  /// Reads elements [first, last) of a parameter's state into a state that was read from the archive. The state is then
  /// that of these elements in one dimension, or of the whole parameter if these are all. Other parts are not read.
  /// `range` must begin and end at multiples of the grain, or at the end of the parameter.
  void read(ParamState::Data& state, const ParameterName& parameter, const jit::Part& range);
  /// Reads all elements.
  void read(ParamState::Data& state, const ParameterName& parameter);

 private:
  PartFile& part(int number);
  torch::Tensor read(const std::string& state_name, const PartedState& parted,
                     const std::string& buffer, const jit::Part& range);
  std::int64_t bytes_of(const std::string& record, const PartedState& parted,
                        const std::string& buffer, std::size_t part);

  std::string folder_;
  torch::serialize::InputArchive archive_;
  PartIndex index_;
  std::map<int, PartFile> open_;  // the last ones that were used
};

/// Opens a folder if `path` is one, or the index in one. Null for other files.
std::unique_ptr<CheckpointFolder> open_folder(const std::string& path);

/// For an archive of a rank that has no complete state.
void mark_as_without_state(torch::serialize::OutputArchive& archive, int rank);

/// Throws a c10::Error if the archive is the index of a folder, or of a rank that has no complete state.
void check_whole(torch::serialize::InputArchive& archive);

}  // namespace jitstep
