// Checkpoints in folders: each rank writes and reads its part.
#include <torch/types.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "jit/base/file_io.h"
#include "jitstep/jit/plan.h"
#include "optim/optimizer/offload.h"
#include "optim/optimizer/sharding.h"
#include "optim/state/archive_file.h"
#include "optim/state/checkpoint_folder.h"
#include "optim/state/state_operations.h"
#include "optim/tensor/kernel_tensors.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
namespace {

namespace fs = std::filesystem;

void make_folder(const std::string& folder) {
  TORCH_CHECK(!folder.empty(), "jitstep: the optimizer cannot be saved: the name of the folder is ",
              "empty. Name a folder.");
  std::error_code problem;
  fs::create_directory(folder, problem);
  const std::string missing = folder_problem(folder);
  TORCH_CHECK(missing.empty(), "jitstep: the optimizer cannot be saved to the folder ", folder,
              ": ", problem ? problem.message() : missing,
              ". Name a folder that exists or can be made.");
}

// `ranks`: 0 if the optimizer is not sharded.
void check_part_count(int parts, int ranks) {
  TORCH_CHECK(
      parts >= 0 && parts <= PartIndex::kMostParts && (ranks == 0 || parts == 0 || parts == ranks),
      "jitstep: save_parts() cannot write ", parts, " parts",
      ranks > 0 ? ": there is one for each of the ranks. Leave the number out."
                : c10::str(". Pass a number from 1 to ", PartIndex::kMostParts, "."));
}

std::uint64_t new_number() {
  const auto number = jit::random_number();
  TORCH_CHECK(number, "jitstep: the system gives no random numbers: ", jit::failure_advice(errno));
  return *number;
}

// The number of rank 0.
std::uint64_t first_of(std::uint64_t own, RankGroup& ranks) {
  const torch::Tensor all =
      ranks.all_gather(torch::full({1}, static_cast<std::int64_t>(own), torch::kInt64));
  return static_cast<std::uint64_t>(all[0][0].item<std::int64_t>());
}

bool has_formats(const ParamState::Data& state, const jit::Plan& plan) {
  const auto &stored = state.declared_slots(), &wanted = plan.rule().slots;
  const auto& to = plan.spec.state.slots;
  if (stored.size() != wanted.size() || state.buffers.format.slots.size() != wanted.size())
    return false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& from = state.buffers.format.slots[i];
    if (stored[i].name != wanted[i].name || (to[i] && !from) ||
        (to[i] && !jit::same_codes(*from, *to[i], *plan.catalog)))
      return false;
  }
  return true;
}

bool has_codec_aux_state(const jit::Plan& plan) {
  return std::any_of(plan.aux_state.begin(), plan.aux_state.end(),
                     [](const auto& field) { return field.component != jit::kRuleComponent; });
}

// True if the elements of a part can be read and converted without the others.
bool converts_alone(const PartedState& parted, const ParamState::Data& state,
                    const torch::Tensor& p, const jit::Plan& plan, const jit::Part& part) {
  const StateBuffers& stored = state.buffers;
  if (part.count() == p.numel() || p.sizes() != state.layout.sizes ||
      p.strides() != state.layout.strides || stored.format.dtype != plan.spec.state.dtype ||
      stored.format.weights != plan.spec.state.weights)
    return false;
  const bool same = has_formats(state, plan);
  if (part.count() == 0) return same;
  const auto is_cut = [&](std::int64_t at) { return at % parted.grain == 0 || at == p.numel(); };
  return parted.grain > 0 && jit::part_grain(plan) > 0 && is_cut(part.first) && is_cut(part.last) &&
         (same || !has_codec_aux_state(plan));
}

}  // namespace

// ---- saving ------------------------------------------------------------------------------------

// The parameters whose state goes to parts.
class Optimizer::Impl::PartsToSave {
 public:
  PartsToSave(const Impl& impl, int parts) : impl_(impl) {
    for (std::size_t g = 0; g < impl.groups.size(); ++g)
      for (const ParamRecord& record : impl.groups[g].param_records) {
        const torch::Tensor& p = impl.param_groups()[record.name.group].params()[record.name.index];
        const auto* const state = dynamic_cast<const ParamState*>(impl.find_state(record.key));
        if (record.repeated || state == nullptr || p.numel() == 0) continue;
        check(p, record.name, *state);
        saved_.push_back({&record, &p, &state->data()});
      }
    if (!impl.sharding) cut(parts);
  }

  int parts() const { return partition().ranks(); }

  void describe(PartIndex& index) const {
    index.parts = parts();
    for (std::size_t i = 0; i < saved_.size(); ++i) {
      std::vector<std::int64_t> elements;
      for (int part = 0; part < parts(); ++part)
        elements.push_back(partition().part(part, index_of(i)).count());
      index.states[name_of(i)] = parted_state(*saved_[i].state, *saved_[i].p, elements);
    }
  }

  // Writes the part of this rank, or all parts if there are no other ranks.
  void write(const std::string& folder, const PartIndex& index) const {
    const int own = impl_.sharding ? impl_.sharding->ranks().rank() : 0;
    const int last = impl_.sharding ? own + 1 : parts();
    for (int part = own; part < last; ++part) {
      std::vector<PartRecord> records;
      for (std::size_t i = 0; i < saved_.size(); ++i) {
        const jit::Part& range = partition().part(part, index_of(i));
        if (range.count() == 0) continue;
        const ParamState::Data& state = *saved_[i].state;
        const bool cuts = !impl_.sharding && range.count() < saved_[i].p->numel();
        add_records(state, cuts ? part_of_state(state.buffers, *saved_[i].p, range) : state.buffers,
                    index.states.at(name_of(i)), name_of(i), records);
      }
      write_part(folder, {index.save, part, parts()}, records);
    }
  }

  // What the index has of their states.
  std::map<void*, ParamState> outlines(const PartIndex& index) const {
    std::map<void*, ParamState> result;
    for (std::size_t i = 0; i < saved_.size(); ++i) {
      void* const key = saved_[i].record->key;
      const auto& state = static_cast<const ParamState&>(*impl_.find_state(key));
      keep_outline(result.insert_or_assign(key, state).first->second.data(), *saved_[i].p,
                   index.states.at(name_of(i)));
    }
    return result;
  }

 private:
  struct Saved {
    const ParamRecord* record;
    const torch::Tensor* p;
    const ParamState::Data* state;
  };

  bool is_part_of(const StateBuffers& state, const torch::Tensor& p,
                  const ParameterName& name) const {
    const ParamRecord& record = impl_.groups[name.group].param_records[name.index];
    return state.whole == p.numel() &&
           (!record.part.defined() || impl_.sharding->keeps_order(record.key, p));
  }

  void check(const torch::Tensor& p, const ParameterName& name, const ParamState& state) const {
    check_intact(state);
    const ParamState::Data& data = state.data();
    const bool fits = data.buffers.plan != nullptr &&
                      (impl_.sharding ? is_part_of(data.buffers, p, name) : data.same_layout(p));
    TORCH_CHECK(fits, "jitstep: the state of ", jitstep::describe(p, name),
                " was replaced, or the parameter changed, since the last step. Call step() before ",
                "save_parts().");
    if (data.is_bound() && data.same_layout(data.owner.parameter))
      check_slots(data.buffers, data.owner.parameter);
  }

  void cut(int parts) {
    std::vector<jit::PartitionedTensor> tensors;
    for (const Saved& one : saved_)
      tensors.push_back({one.p->numel(), jit::part_grain(*one.state->buffers.plan)});
    own_ = as_torch_error([&] { return jit::Partition(tensors, std::max(parts, 1)); });
  }

  const jit::Partition& partition() const {
    return impl_.sharding ? impl_.sharding->partition() : own_;
  }
  std::size_t index_of(std::size_t saved) const {
    return impl_.sharding ? impl_.sharding->index_of(saved_[saved].record->key) : saved;
  }
  std::string name_of(std::size_t saved) const {
    const ParameterName& name = saved_[saved].record->name;
    return PartIndex::state_name(name.group, name.index);
  }

  const Impl& impl_;
  std::vector<Saved> saved_;
  jit::Partition own_{{}, 1};  // without ranks
};

void Optimizer::save_parts(const std::string& folder, int parts) const {
  const OwnOperations own;
  Impl& impl = *impl_;
  const int ranks = impl.sharding ? impl.sharding->ranks().size() : 0;
  const bool is_first = ranks == 0 || impl.sharding->ranks().rank() == 0;
  impl.together(RankCall::save_parts, [&] {
    check_part_count(parts, ranks);
    impl.sync_groups();
    impl.agree();
  });
  PartIndex index;
  std::uint64_t number = 0;
  impl.together(RankCall::save_parts, [&] {
    if (is_first) make_folder(folder);
    number = new_number();
  });
  index.save = name_of_save(ranks > 0 ? first_of(number, impl.sharding->ranks()) : number);
  bool is_complete = false;
  try {
    std::map<void*, ParamState> outlines;
    impl.together(RankCall::save_parts, [&] {
      const Impl::PartsToSave saved(impl, parts);
      saved.describe(index);
      saved.write(folder, index);
      if (is_first) outlines = saved.outlines(index);
    });
    impl.together(RankCall::save_parts, [&] {
      if (!is_first) return;
      impl.write_index(folder, index, outlines);
      is_complete = true;
      jit::sync_folder(folder);  // before old files are removed
      remove_other_parts(folder, index.save);
    });
  } catch (...) {
    // Another rank must not do it: rank 0 may not have seen that rank's error, and complete the checkpoint.
    if (is_first && !is_complete) remove_parts(folder, index.save);
    throw;
  }
}

void Optimizer::Impl::write_index(const std::string& folder, const PartIndex& index,
                                  const std::map<void*, ParamState>& outlines) const {
  torch::serialize::OutputArchive archive;
  write_archive(archive, default_options(), mode, {states(), outlines}, param_groups(),
                shared_state_to_save(), to_text(index));
  write_file(archive, (fs::path(folder) / kIndexFile).string());
}

// ---- loading -----------------------------------------------------------------------------------

// Fills a state with the tensors that are in parts. Returns what it is the state of: the parameter or this rank's part.
torch::Tensor Optimizer::Impl::read_parts(CheckpointFolder& folder, const ParameterName& name,
                                          ParamState::Data& state, const jit::Plan& plan) const {
  const torch::Tensor& of_group = param_groups()[name.group].params()[name.index];
  const torch::Tensor& p = offload ? offload->stepped(key_of(of_group), of_group) : of_group;
  const PartedState* const parted = folder.find(name);
  const jit::Part own = sharding ? sharding->part(key_of(p)) : jit::Part{0, p.numel()};
  if (parted == nullptr || !converts_alone(*parted, state, p, plan, own)) {
    folder.read(state, name);
    return p;
  }
  folder.read(state, name, own);
  if (own.count() > 0) return storage_range(p.detach(), own.first, own.count());
  const torch::Tensor none = torch::empty({0}, p.options().requires_grad(false));
  if (parted->grain == 0)
    state.buffers.aux_state =
        make_aux_state(none, plan, std::vector<double>(plan.aux_state.size()));
  return none;
}

}  // namespace jitstep
