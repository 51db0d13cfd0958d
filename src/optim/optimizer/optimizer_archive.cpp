// Saving and loading. load() reads and binds everything before it replaces anything, so a failed load changes nothing.
#include <torch/serialize.h>

#include <algorithm>
#include <map>

#include "jit/base/text.h"
#include "jitstep/jit/plan.h"
#include "optim/optimizer/offload.h"
#include "optim/optimizer/sharding.h"
#include "optim/state/archive.h"
#include "optim/state/archive_file.h"
#include "optim/state/checkpoint_folder.h"
#include "optim/state/slots_by_name.h"
#include "optim/state/weight_conversion.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

// Collects format conversions of a load, for one warning. Also has copies of parameters that are rounded again, and
// restores them unless commit() was called.
class Optimizer::Impl::Conversions {
 public:
  Conversions() = default;
  Conversions(const Conversions&) = delete;
  Conversions& operator=(const Conversions&) = delete;
  ~Conversions() {
    for (const auto& [p, before] : rewritten_) put_back(p, before);
  }

  void note(const ParamState& saved, const torch::Tensor& p, const jit::Plan& plan) {
    const torch::Tensor before = copy_if_rewritten(saved.data().buffers, plan, p);
    if (before.defined()) rewritten_.emplace_back(p, before);
    const std::string weights = weight_conversion_text(saved.data().buffers, plan);
    bool differs = !weights.empty();
    if (differs) formats_.insert(weights);
    for (std::size_t i = 0; i < saved.data().buffers.slots.size(); ++i) {
      const auto& from = saved.data().buffers.format.slots[i];
      const auto& to = plan.spec.state.slots.at(i);
      if (!from || !to || jit::same_codes(*from, *to, *plan.catalog)) continue;
      formats_.insert(plan.rule().slots[i].name + " from " + jit::to_string(*from) + " to " +
                      jit::to_string(*to));
      differs = true;
    }
    if (differs) ++parameters_;
  }

  bool rewrites_parameters() const { return !rewritten_.empty(); }
  void commit() { rewritten_.clear(); }

  void warn() const {
    if (parameters_ == 0) return;
    TORCH_WARN(
        "jitstep: the checkpoint's formats differ from this optimizer's. State was converted: ",
        jit::joined(formats_), " (", jit::counted(parameters_, "parameter"), ").");
  }

 private:
  std::vector<std::pair<torch::Tensor, torch::Tensor>> rewritten_;
  std::set<std::string> formats_;
  int parameters_ = 0;
};

namespace {

bool has_stepped(const StateMap& states) {
  return std::any_of(states.begin(), states.end(), [](const auto& entry) {
    const auto* const state = dynamic_cast<const ParamState*>(entry.second.get());
    return state != nullptr && state->step() > 0;
  });
}

}  // namespace

void Optimizer::save(OutputArchive& archive) const {
  impl_->together(RankCall::save, [&] {
    impl_->agree();
    if (!save_all(archive)) mark_as_without_state(archive, impl_->sharding->ranks().rank());
  });
}

// States from another optimizer may have taken steps although this optimizer has not.
std::optional<std::vector<double>> Optimizer::Impl::shared_state_to_save() const {
  auto values = shared_state.values();
  if (!values && !shared_names(default_options().manifest()).empty() && has_stepped(states()))
    values = shared_values();
  return values;
}

// False if another rank writes the archive.
bool Optimizer::save_all(OutputArchive& archive) const {
  // The parameter of a state without slots may have another shape now. The archive has the state as the next step would
  // resize it.
  std::map<void*, ParamState> resized;
  if (impl_->sharding && !impl_->gather_states(resized)) return false;
  for (const ParamGroup& group : param_groups_)
    for (const torch::Tensor& p : group.params()) {
      const auto found = state_.find(key_of(p));
      if (found == state_.end()) continue;
      const auto* const state = dynamic_cast<const ParamState*>(found->second.get());
      if (!impl_->sharding && state != nullptr && state->data().has_id() &&
          !has_slots(state->data().buffers) && p.sizes() != state->data().layout.sizes)
        resized.try_emplace(found->first, *state).first->second.data().resize(p.sizes());
    }
  write_archive(archive, impl_->default_options(), impl_->mode, {state_, resized}, param_groups_,
                impl_->shared_state_to_save());
  return true;
}

// Ranks agree once more, so that all of them see an error of the rank that writes the file.
void Optimizer::save(const std::string& file) const {
  OutputArchive archive;
  bool writes = false;
  impl_->together(RankCall::save, [&] {
    impl_->agree();
    writes = save_all(archive);
  });
  impl_->together(RankCall::save, [&] {
    if (writes) write_file(archive, file);
  });
}

void Optimizer::load(const std::string& path) {
  impl_->together(RankCall::load, [&] {
    const auto folder = open_folder(path);
    InputArchive file;
    if (!folder) file = open_archive(path);
    try {
      impl_->load_all(folder ? folder->archive() : file, folder.get());
    } catch (c10::Error& error) {
      error.add_context("loading " + path);
      throw;
    }
  });
}

void Optimizer::load(InputArchive& archive) {
  impl_->together(RankCall::load, [&] { impl_->load_all(archive, nullptr); });
}

// `folder`: has the tensors that are not in the archive.
void Optimizer::Impl::load_all(InputArchive& archive, CheckpointFolder* folder) {
  const OwnOperations own;
  if (folder == nullptr) check_whole(archive);
  sync_groups();
  check_origin(archive, default_options(), param_groups());
  const jit::Mode saved_mode = read_mode(archive);
  if (offload) offload->refresh();
  std::vector<ArchivedGroup> archived = read_archive(archive, default_options(), param_groups());
  const auto shared_values = read_shared_state(archive, default_options(), archived);
  Conversions conversions;
  for (std::size_t g = 0; g < archived.size(); ++g)
    bind_archived(g, archived[g], conversions, folder);
  const std::set<int> loaded = distinct_ids(archived);
  // Before the changes, because a warning handler of the program may throw.
  conversions.warn();
  agree();
  for (std::size_t g = 0; g < archived.size(); ++g) take_archived(g, archived[g]);
  renumber(loaded);
  shared_state.clear();
  if (shared_values) shared_state.set(*shared_values);
  mode = saved_mode;
  if (offload && conversions.rewrites_parameters()) offload->send_all();
  conversions.commit();
}

// Binds the loaded states to the group's parameters, in this optimizer's formats.
void Optimizer::Impl::bind_archived(std::size_t g, ArchivedGroup& group, Conversions& conversions,
                                    CheckpointFolder* folder) const {
  const auto record = with_group_context(g, [&] {
    return GroupRecord(group.options ? *group.options : group_options(g), ValidationPhase::step);
  });
  for (std::size_t i = 0; i < group.states.size(); ++i) {
    const ParamRecord& param_record = groups[g].param_records[i];
    const torch::Tensor& of_group = param_groups()[g].params()[i];
    const torch::Tensor& p = offload ? offload->stepped(param_record.key, of_group) : of_group;
    if (param_record.repeated) group.states[i].reset();
    with_context(p, {g, i}, [&] {
      const auto plan = record.plan(p);
      if (!group.states[i]) return;
      ParamState::Data& state = group.states[i]->data();
      const torch::Tensor read = folder == nullptr ? p : read_parts(*folder, {g, i}, state, *plan);
      conversions.note(*group.states[i], p, *plan);
      state.bind(read, plan, state.has_id() ? state.buffers.id : param_record.id,
                 record.initial(*plan, param_record.index_in_group));
      if (!read.is_same(p)) state.owner = {};  // the next step binds it to the part
      if (sharding) reduce_to_part(g, i, state);
    });
  }
}

// Replaces the group's options and states by the loaded ones.
void Optimizer::Impl::take_archived(std::size_t g, ArchivedGroup& group) {
  if (group.options) {
    group_options(g).assign(group.options->values());
    group_options(g).edit_formats() = group.options->formats();
  }
  for (std::size_t i = 0; i < group.states.size(); ++i) {
    const ParamRecord& param_record = groups[g].param_records[i];
    if (param_record.repeated) continue;
    if (group.states[i])
      states()[param_record.key] = std::move(group.states[i]);
    else
      states().erase(param_record.key);
  }
}

// Gives a new id to each parameter without a loaded state whose id a loaded state uses.
void Optimizer::Impl::renumber(const std::set<int>& taken) {
  const int known = static_cast<int>(ids.size());
  int next = taken.empty() ? 0 : std::max(*taken.rbegin() + 1, known);
  for (Group& group : groups)
    for (ParamRecord& param_record : group.param_records)
      if (!param_record.repeated && states().find(param_record.key) == states().end() &&
          taken.contains(param_record.id))
        ids[param_record.key] = param_record.id = next++;
}

}  // namespace jitstep
