#include "optim/state/checkpoint_folder.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <type_traits>
#include <utility>

#include "jit/base/text.h"
#include "jitstep/jit/layout.h"
#include "jitstep/jit/plan.h"
#include "optim/state/archive_fields.h"
#include "optim/state/archive_file.h"
#include "optim/state/state_operations.h"
#include "optim/tensor/kernel_tensors.h"

namespace jitstep {
namespace {

namespace fs = std::filesystem;
using torch::serialize::InputArchive;

constexpr std::size_t kMostOpenFiles = 256;
constexpr const char* kRankKey = "jitstep_rank";

// Visits the tensors that may be in parts, with their names. A state that cannot be cut has auxiliary state per row or
// the like, which is in the part that has the parameter. Otherwise all parts have the same, and the index has it.
template <class Buffers, class Visit>
void for_each_named(const ParamState::Data& state, Buffers& buffers, bool is_cut,
                    const Visit& visit) {
  const auto& slots = state.declared_slots();
  for (std::size_t i = 0; i < buffers.slots.size(); ++i) {
    visit("codes_" + slots[i].name, buffers.slots[i].codes);
    visit("meta_" + slots[i].name, buffers.slots[i].meta);
  }
  for (auto& field : buffers.aux_state) {
    const bool is_matrix = field.is_matrix();
    for (std::size_t half = 0; !is_cut && half < (is_matrix ? 1 : 2); ++half)
      visit(jit::str_cat("memory_", field.key, "_", half), field.buffers[half]);
    if constexpr (!std::is_const_v<Buffers>)
      if (is_matrix) field.buffers[1] = field.buffers[0];
  }
  visit("extra", buffers.residual);
}

// Bytes of so many elements, by name. Tensors without bytes are left out.
std::map<std::string, std::int64_t> bytes_by_name(const ParamState::Data& state,
                                                  std::int64_t elements) {
  const jit::Plan& plan = *state.buffers.plan;
  std::map<std::string, std::int64_t> bytes;
  const auto& slots = state.declared_slots();
  for (std::size_t i = 0; i < state.buffers.slots.size(); ++i) {
    if (!state.buffers.slots[i].codes.defined()) continue;
    const auto layout = jit::slot_layout(plan, static_cast<int>(i), elements);
    if (layout.codes > 0) bytes["codes_" + slots[i].name] = layout.codes;
    if (layout.meta > 0) bytes["meta_" + slots[i].name] = layout.meta;
  }
  if (const std::int64_t width = plan.weights->residual_bytes();
      width > 0 && (state.buffers.t > 0 || state.buffers.residual_is_set))
    bytes["extra"] = elements * width;
  return bytes;
}

bool is_index(InputArchive& archive) {
  InputArchive ours;
  c10::IValue parts;
  return archive.try_read("jitstep", ours) && ours.try_read("parts", parts);
}

std::int64_t elements_of(const PartedState& parted) {
  return std::accumulate(parted.elements.begin(), parted.elements.end(), std::int64_t{0});
}

}  // namespace

// ---- writing -----------------------------------------------------------------------------------

PartedState parted_state(const ParamState::Data& state, const torch::Tensor& p,
                         std::vector<std::int64_t> elements) {
  PartedState parted{std::move(elements), jit::part_grain(*state.buffers.plan), {}};
  if (parted.grain > 0) {
    parted.buffers = bytes_by_name(state, parted.grain);
    return parted;
  }
  for (const auto& [name, bytes] : bytes_by_name(state, p.numel())) parted.buffers[name] = 0;
  for_each_named(state, state.buffers, false, [&](const std::string& name, const auto& tensor) {
    if (name.starts_with("memory_") && tensor.defined()) parted.buffers[name] = 0;
  });
  return parted;
}

void add_records(const ParamState::Data& state, const StateBuffers& part, const PartedState& parted,
                 const std::string& state_name, std::vector<PartRecord>& records) {
  for_each_named(
      state, part, parted.grain > 0, [&](const std::string& name, const torch::Tensor& tensor) {
        if (parted.buffers.contains(name) && tensor.defined() && tensor.numel() > 0)
          records.push_back({state_name + "/" + name, storage_range(tensor, 0, tensor.numel())});
      });
}

void keep_outline(ParamState::Data& state, const torch::Tensor& p, const PartedState& parted) {
  // A rank whose part is empty has no scales and no residual.
  const auto empty = [&](const std::string& name, torch::Tensor& tensor) {
    if (tensor.defined() || parted.buffers.contains(name))
      tensor = torch::empty({0}, tensor.defined() ? tensor.scalar_type() : torch::kUInt8);
  };
  for_each_named(state, state.buffers, parted.grain > 0, empty);
  for (auto& field : state.buffers.aux_state)
    for (torch::Tensor& half : field.buffers)
      if (half.defined()) half = half.cpu();
  state.layout = {p.sizes().vec(), p.strides().vec(), p.scalar_type(), torch::kCPU};
}

// ---- reading -----------------------------------------------------------------------------------

CheckpointFolder::CheckpointFolder(std::string folder) : folder_(std::move(folder)) {
  const std::string file = fs::path(folder_) / kIndexFile;
  const std::string missing = file_problem(file);
  TORCH_CHECK(missing.empty(), "jitstep: cannot load an optimizer from ", folder_,
              ": the folder has no file ", kIndexFile, " that can be read: ", missing,
              ". Name a folder that save_parts() wrote to completely, or a file.");
  archive_ = open_archive(file);
  TORCH_CHECK(is_index(archive_), "jitstep: cannot load an optimizer from ", folder_, ": ", file,
              " is not the index of a folder, but a whole checkpoint. Load that file.");
  try {
    InputArchive ours = read_entry(archive_, "jitstep");
    index_ = parse_part_index(read_string(ours, "parts"));
  } catch (c10::Error& error) {
    error.add_context("loading " + file);
    throw;
  }
}

void mark_as_without_state(torch::serialize::OutputArchive& archive, int rank) {
  archive.write(kRankKey, c10::IValue(std::int64_t{rank}));
}

void check_whole(InputArchive& archive) {
  c10::IValue rank;
  TORCH_CHECK(!archive.try_read(kRankKey, rank), "jitstep: the checkpoint has no state: rank ",
              rank, " of a sharded optimizer wrote it, and only the archive of rank 0 has state. ",
              "Save with save(file), or write the archives of the ranks to different files.");
  TORCH_CHECK(!is_index(archive),
              "jitstep: the checkpoint is the index of a folder, without the state in the folder's "
              "parts. Pass the path of the folder.");
}

std::unique_ptr<CheckpointFolder> open_folder(const std::string& path) {
  if (folder_problem(path).empty()) return std::make_unique<CheckpointFolder>(path);
  const fs::path file(path);
  if (file.filename() != kIndexFile || !file_problem(path).empty()) return nullptr;
  InputArchive archive = open_archive(path);
  if (!is_index(archive)) return nullptr;
  return std::make_unique<CheckpointFolder>(file.has_parent_path() ? file.parent_path().string()
                                                                   : ".");
}

const PartedState* CheckpointFolder::find(const ParameterName& parameter) const {
  const auto found = index_.states.find(PartIndex::state_name(parameter.group, parameter.index));
  return found == index_.states.end() ? nullptr : &found->second;
}

PartFile& CheckpointFolder::part(int number) {
  if (const auto found = open_.find(number); found != open_.end()) return found->second;
  if (open_.size() >= kMostOpenFiles) open_.clear();
  return open_.emplace(number, PartFile(folder_, {index_.save, number, index_.parts}))
      .first->second;
}

// Throws unless the record has the bytes of its elements. The last block of a parameter may be smaller.
std::int64_t CheckpointFolder::bytes_of(const std::string& record, const PartedState& parted,
                                        const std::string& buffer, std::size_t number) {
  PartFile& file = part(static_cast<int>(number));
  // A matrix of state without elements has no record. bind() refuses a state that needs its elements.
  if (parted.grain == 0 && buffer.starts_with("memory_") && !file.has(record)) return 0;
  const std::int64_t bytes = file.bytes(record);
  if (parted.grain == 0) return bytes;
  const std::int64_t count = parted.elements[number], each = parted.buffers.at(buffer);
  const std::int64_t full = count / parted.grain, begun = full + (count % parted.grain > 0 ? 1 : 0);
  TORCH_CHECK(bytes >= full * each && bytes <= begun * each, "jitstep: the checkpoint is damaged: ",
              PartId{index_.save, static_cast<int>(number), index_.parts}.file_name(), " has ",
              bytes, " bytes of ", record, " for ", count, " elements. Save the optimizer again.");
  return bytes;
}

torch::Tensor CheckpointFolder::read(const std::string& state_name, const PartedState& parted,
                                     const std::string& buffer, const jit::Part& range) {
  struct Slice {
    int part;
    std::int64_t first, count;
  };
  const std::string record = state_name + "/" + buffer;
  std::vector<Slice> slices;
  std::int64_t begin = 0, total = 0;  // begin: the part's first element
  for (std::size_t i = 0; i < parted.elements.size(); ++i) {
    const std::int64_t end = begin + parted.elements[i];
    const std::int64_t from = std::max(begin, range.first), to = std::min(end, range.last);
    if (from < to) {
      const std::int64_t all = bytes_of(record, parted, buffer, i);
      const std::int64_t each = parted.buffers.at(buffer);
      const auto at = [&](std::int64_t element) {
        return parted.grain == 0 ? 0 : (element - begin) / parted.grain * each;
      };
      const std::int64_t first = at(from), last = to == end ? all : at(to);
      slices.push_back({static_cast<int>(i), first, last - first});
      total += last - first;
    }
    begin = end;
  }
  torch::Tensor bytes = torch::empty({total}, torch::kUInt8);
  auto* to = static_cast<std::uint8_t*>(bytes.data_ptr());
  for (const Slice& slice : slices) {
    if (slice.count > 0) part(slice.part).read(record, slice.first, slice.count, to);
    to += slice.count;
  }
  return bytes;
}

void CheckpointFolder::read(ParamState::Data& state, const ParameterName& parameter,
                            const jit::Part& range) {
  const PartedState* const parted = find(parameter);
  if (parted == nullptr) return;
  const std::string name = PartIndex::state_name(parameter.group, parameter.index);
  const jit::Shape shape{state.layout.sizes, state.layout.strides};
  const std::int64_t elements = elements_of(*parted);
  const std::int64_t shaped = as_torch_error([&] { return shape.elements(); });
  TORCH_CHECK(shape.sizes.size() == shape.strides.size() && shaped == elements,
              "jitstep: the checkpoint is damaged: its parts have ", elements,
              " elements of a parameter of shape ", torch::IntArrayRef(shape.sizes),
              ". Save the optimizer again.");
  for_each_named(state, state.buffers, parted->grain > 0,
                 [&](const std::string& buffer, torch::Tensor& tensor) {
                   if (!tensor.defined() || !parted->buffers.contains(buffer)) return;
                   const torch::Tensor bytes = read(name, *parted, buffer, range);
                   const auto width = static_cast<std::int64_t>(tensor.element_size());
                   TORCH_CHECK(bytes.numel() % width == 0,
                               "jitstep: the checkpoint is damaged: ", "it has ", bytes.numel(),
                               " bytes of ", name, "/", buffer, ". Save the optimizer again.");
                   tensor = bytes.view(tensor.scalar_type());
                 });
  if (range.count() != elements) {
    state.layout.sizes = {range.count()};
    state.layout.strides = {1};
    state.buffers.first = range.first;
    state.buffers.whole = elements;
    return;
  }
  for (std::size_t i = 0; i < state.buffers.slots.size(); ++i)
    if (torch::Tensor& codes = state.buffers.slots[i].codes;
        codes.defined() && state.holds_values(i)) {
      TORCH_CHECK(codes.numel() == elements, "jitstep: the checkpoint is damaged: it has ",
                  codes.numel(), " values of ", name, " instead of ", elements,
                  ". Save the optimizer again.");
      codes = codes.as_strided(shape.sizes, jit::compact_strides(shape));
    }
}

void CheckpointFolder::read(ParamState::Data& state, const ParameterName& parameter) {
  if (const PartedState* const parted = find(parameter))
    read(state, parameter, {0, elements_of(*parted)});
}

}  // namespace jitstep
