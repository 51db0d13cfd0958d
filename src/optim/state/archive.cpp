#include "optim/state/archive.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "jit/base/text.h"
#include "jit/step/shared_sum.h"
#include "optim/options/group_options.h"
#include "optim/state/archive_fields.h"
#include "optim/state/shared_state_tensors.h"

namespace jitstep {
namespace {

using torch::optim::OptimizerParamGroup;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

constexpr std::int64_t kSchema = 2;  // the newest that this version reads
// A reader of schema 1 must not take an index for a whole checkpoint.
constexpr std::int64_t kWholeSchema = 1, kIndexSchema = 2;
constexpr const char* kLayout = "1.5.0";  // the torch version that introduced this layout
constexpr const char* kEval = "eval";
constexpr const char* kTrain = "train";

// "adamw". If groups have different rules, one name per group: "muon, adamw".
std::string rules_of(const Options& defaults, const std::vector<OptimizerParamGroup>& groups) {
  std::vector<std::string> rules;
  for (const auto& group : groups) rules.push_back(checked_options_of(group).rule());
  const bool one = std::all_of(rules.begin(), rules.end(),
                               [&](const std::string& rule) { return rule == defaults.rule(); });
  return one ? defaults.rule() : jit::joined(rules);
}

std::unique_ptr<Options> read_options(InputArchive& archive, const OptimizerParamGroup& group) {
  std::unique_ptr<Options> options = checked_options_of(group).copy();
  const jit::Formats formats = options->formats();
  options->serialize(archive);
  // Option values come from the archive and formats from the optimizer. The seed comes from the archive, because the
  // run continues with the same random bits.
  const auto seed = options->formats().seed;
  options->edit_formats() = formats;
  options->edit_formats().seed = seed;
  return options;
}

// torch's archives do not name their optimizer. An option that ours lacks shows that the archive is another
// optimizer's.
void check_torchs(InputArchive& options, const OptimizerParamGroup& group) {
  const Options& ours = checked_options_of(group);
  const auto& names = ours.names();
  for (const std::string& key : options.keys())
    TORCH_CHECK(std::find(names.begin(), names.end(), key) != names.end(),
                "jitstep: the checkpoint was not saved by ", ours.rule(),
                ": that optimizer has no option ", key,
                ". Load it into the optimizer of the same name as the one that saved it.");
}

void check_size(InputArchive& group_archive, std::size_t g, const OptimizerParamGroup& group) {
  const std::int64_t size = read_size(group_archive, "params/size");
  TORCH_CHECK(size == std::ssize(group.params()), "jitstep: the checkpoint was saved with ",
              jit::counted(size, "parameter"), " in parameter group ", g,
              ", but this optimizer has ", group.params().size(),
              ". Load it into groups of the same sizes.");
}

// ---- archives of torch before version 1.5 ------------------------------------------------------

const char* old_name(const std::string& name) {
  static constexpr std::pair<std::string_view, const char*> kNames[] = {
      {"exp_avg", "exp_average_buffers"},
      {"exp_avg_sq", "exp_average_sq_buffers"},
      {"max_exp_avg_sq", "max_exp_average_sq_buffers"},
      {"momentum_buffer", "momentum_buffers"},
      {"square_avg", "square_average_buffers"},
      {"grad_avg", "grad_average_buffers"},
      {"sum", "sum_buffers"}};
  const auto found = std::find_if(std::begin(kNames), std::end(kNames),
                                  [&](const auto& one) { return one.first == name; });
  return found == std::end(kNames) ? nullptr : found->second;
}

bool has(InputArchive& archive, const std::string& key) {
  torch::Tensor size;
  return archive.try_read(key + "/size", size);
}

// In these archives SGD has one step count for the whole optimizer.
std::int64_t old_steps(InputArchive& archive) {
  c10::IValue iteration;
  return archive.try_read("iteration_", iteration) ? read_integer(archive, "iteration_") : 0;
}

// Empty if the archive lacks them.
std::vector<torch::Tensor> old_buffers(InputArchive& archive, const char* key) {
  std::vector<torch::Tensor> buffers;
  if (key != nullptr && has(archive, key)) torch::optim::serialize(archive, key, buffers);
  return buffers;
}

using ArchivedStates = std::vector<std::unique_ptr<ParamState>>;

// Adam has a step number for each parameter, which is 0 for those that were not trained. Others have `common`.
void set_old_steps(ArchivedStates& states, const std::vector<torch::Tensor>& steps,
                   std::int64_t common) {
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (!states[i]) continue;
    const std::int64_t own = i < steps.size() ? steps[i].item<std::int64_t>() : common;
    if (own == 0)
      states[i].reset();
    else
      states[i]->step() = own;
  }
}

// True if the archive has any buffer that this rule's optimizer wrote before torch 1.5.
bool is_old(InputArchive& archive, const std::vector<jit::Slot>& slots) {
  return std::any_of(slots.begin(), slots.end(), [&](const jit::Slot& slot) {
    const char* const key = old_name(slot.torch_name);
    return key != nullptr && has(archive, key);
  });
}

std::vector<ArchivedGroup> read_old(InputArchive& archive, const Options& defaults,
                                    const std::vector<OptimizerParamGroup>& groups) {
  const std::string& rule = defaults.rule();
  const auto& slots = defaults.manifest().slots;
  TORCH_CHECK(is_old(archive, slots),
              "jitstep: the checkpoint contains no optimizer: it has neither ",
              "torch's current layout nor buffers of ", rule, " from before torch 1.5. ",
              "Load a file that an optimizer was saved to.");
  TORCH_WARN("Your serialized ", rule, " optimizer is still using the old serialization format. ",
             "You should re-save it to use the new serialization format.");
  std::vector<ArchivedGroup> out(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) out[g].states.resize(groups[g].params().size());
  if (groups.empty()) return out;
  auto& states = out[0].states;  // the old layout has no groups
  const auto state = [&](std::size_t i) -> ParamState& {
    TORCH_CHECK(i < states.size(),
                "jitstep: the checkpoint has state for more parameters than this optimizer has (",
                states.size(), "). Load it into an optimizer with the same parameters.");
    if (!states[i]) states[i] = make_param_state(rule, defaults.catalog());
    return *states[i];
  };
  for (const auto& slot : slots) {
    const std::vector<torch::Tensor> buffers = old_buffers(archive, old_name(slot.torch_name));
    for (std::size_t i = 0; i < buffers.size(); ++i)
      if (buffers[i].defined()) state(i).set_value(slot.name, buffers[i]);
  }
  const std::vector<torch::Tensor> steps = old_buffers(archive, "step_buffers");
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].item<std::int64_t>() != 0) state(i);  // it must have buffers
  set_old_steps(states, steps, std::max<std::int64_t>(1, old_steps(archive)));
  return out;
}

// Users may write to the table of states.
const ParamState& checked_state(const torch::optim::OptimizerParamState& entry) {
  const auto* const state = dynamic_cast<const ParamState*>(&entry);
  TORCH_CHECK(state != nullptr,
              "jitstep: the state of a parameter was replaced by another optimizer's. Use the ",
              "state class of this optimizer.");
  return *state;
}

// Uses the keys of torch::optim::detail::serialize: the parameter's address.
void write_states(OutputArchive& archive, const StatesToSave& states) {
  for (const auto& [key, entry] : states.all) {
    if (entry == nullptr) continue;
    OutputArchive one(archive.compilation_unit());
    const auto replaced = states.replaced.find(key);
    (replaced != states.replaced.end() ? replaced->second : checked_state(*entry)).serialize(one);
    archive.write(std::to_string(reinterpret_cast<std::size_t>(key)), one);
  }
}

}  // namespace

void write_archive(OutputArchive& archive, const Options& defaults, jit::Mode mode,
                   const StatesToSave& states, const std::vector<OptimizerParamGroup>& groups,
                   const std::optional<std::vector<double>>& shared_state,
                   const std::string& parts) {
  archive.write("pytorch_version", c10::IValue(kLayout));
  OutputArchive ours(archive.compilation_unit());
  ours.write("schema", c10::IValue(parts.empty() ? kWholeSchema : kIndexSchema));
  if (!parts.empty()) ours.write("parts", c10::IValue(parts));
  ours.write("rule", c10::IValue(rules_of(defaults, groups)));
  if (shared_state) {
    const auto names = shared_names(defaults.manifest());
    for (std::size_t i = 0; i < names.size(); ++i)
      ours.write("memory_" + names[i], c10::IValue((*shared_state)[i]));
  }
  if (defaults.manifest().modes)
    ours.write("mode", c10::IValue(mode == jit::Mode::eval ? kEval : kTrain));
  archive.write("jitstep", ours);
  OutputArchive state_archive(archive.compilation_unit());
  write_states(state_archive, states);
  archive.write("state", state_archive);
  OutputArchive group_archive(archive.compilation_unit());
  torch::optim::detail::serialize<Options>(group_archive, groups);
  archive.write("param_groups", group_archive);
}

bool has_layout(InputArchive& archive) {
  c10::IValue version;
  if (!archive.try_read("pytorch_version", version)) return false;
  const std::string layout = read_string(archive, "pytorch_version");
  TORCH_CHECK(layout == kLayout, "jitstep: the checkpoint has torch's layout of version ", layout,
              ", but this version of jitstep reads ", kLayout, " only. Update jitstep to load it.");
  InputArchive ours;
  if (!archive.try_read("jitstep", ours)) return true;
  const std::int64_t schema = read_integer(ours, "schema");
  TORCH_CHECK(schema <= kSchema, "jitstep: the checkpoint has schema ", schema,
              ", but this version of jitstep reads at most ", kSchema,
              ". Update jitstep to load it.");
  return true;
}

// torch's archives do not name a rule, so only jitstep's own archives are checked.
void check_origin(InputArchive& archive, const Options& defaults,
                  const std::vector<OptimizerParamGroup>& groups) {
  InputArchive ours;
  if (!has_layout(archive) || !archive.try_read("jitstep", ours)) return;
  const std::string written = read_string(ours, "rule"), rule = rules_of(defaults, groups);
  TORCH_CHECK(written == rule,
              "jitstep: the checkpoint cannot be loaded into an optimizer of the rule ", rule,
              ": it has state of the rule ", written, ". Load it into an optimizer of that rule.");
}

std::vector<std::unique_ptr<ParamState>> read_states(InputArchive& group, InputArchive& states,
                                                     const Options& options, std::size_t count) {
  std::vector<std::unique_ptr<ParamState>> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    InputArchive archive;
    if (!states.try_read(read_string(group, "params/" + std::to_string(i)), archive)) continue;
    out[i] = make_param_state(options.rule(), options.catalog());
    out[i]->serialize(archive);
  }
  return out;
}

std::vector<ArchivedGroup> read_archive(InputArchive& archive, const Options& defaults,
                                        const std::vector<OptimizerParamGroup>& groups) {
  c10::IValue version;
  if (!archive.try_read("pytorch_version", version)) return read_old(archive, defaults, groups);
  InputArchive states = read_entry(archive, "state");
  InputArchive all_groups = read_entry(archive, "param_groups");
  const std::int64_t count = read_size(all_groups, "param_groups/size");
  TORCH_CHECK(count == std::ssize(groups), "jitstep: the checkpoint was saved with ",
              jit::counted(count, "parameter group"), ", but this optimizer has ", groups.size(),
              ". Load it into an optimizer with as many groups.");
  std::vector<ArchivedGroup> out(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    InputArchive group = read_entry(all_groups, "param_groups/" + std::to_string(g));
    InputArchive options = read_entry(group, "options");
    check_size(group, g, groups[g]);
    if (InputArchive ours; !archive.try_read("jitstep", ours)) check_torchs(options, groups[g]);
    out[g].options = read_options(options, groups[g]);
    out[g].states =
        read_states(group, states, checked_options_of(groups[g]), groups[g].params().size());
  }
  return out;
}

std::optional<std::vector<double>> read_shared_state(InputArchive& archive, const Options& defaults,
                                                     const std::vector<ArchivedGroup>& groups) {
  InputArchive ours;
  if (!archive.try_read("jitstep", ours)) return std::nullopt;
  std::vector<double> values;
  const auto names = shared_names(defaults.manifest());
  if (names.empty()) return std::nullopt;
  for (const std::string& name : names) {
    c10::IValue value;
    if (!ours.try_read("memory_" + name, value)) continue;
    TORCH_CHECK(value.isDouble(), "jitstep: the checkpoint is damaged: its entry \"memory_", name,
                "\" is not a number. Save the optimizer again.");
    values.push_back(value.toDouble());
  }
  const auto has_stepped = [&](const ArchivedGroup& group) {
    return std::any_of(group.states.begin(), group.states.end(), [&](const auto& state) {
      return state && state->rule() == defaults.rule() && state->step() > 0;
    });
  };
  if (values.empty() && std::none_of(groups.begin(), groups.end(), has_stepped))
    return std::nullopt;
  TORCH_CHECK(values.size() == names.size(), "jitstep: the checkpoint has ", values.size(),
              " of the ", names.size(), " values of shared state that ", defaults.rule(),
              " needs. It is damaged, or another version of the rule wrote it. Save the optimizer "
              "again.");
  return values;
}

jit::Mode read_mode(InputArchive& archive) {
  InputArchive ours;
  c10::IValue written;
  if (!archive.try_read("jitstep", ours) || !ours.try_read("mode", written))
    return jit::Mode::train;
  const std::string mode = read_string(ours, "mode");
  TORCH_CHECK(mode == kEval || mode == kTrain,
              "jitstep: the checkpoint is damaged: its \"mode\" is \"", mode,
              "\" instead of \"train\" or \"eval\". Save the optimizer again.");
  return mode == kEval ? jit::Mode::eval : jit::Mode::train;
}

std::set<int> distinct_ids(const std::vector<ArchivedGroup>& groups) {
  std::set<int> ids;
  for (const auto& group : groups)
    for (const auto& state : group.states)
      TORCH_CHECK(
          !state || (state->id() >= 0 && state->id() < jit::kMaxTensorIds &&
                     ids.insert(state->id()).second),
          "jitstep: the checkpoint is damaged: two parameters have the same tensor id, or an id is "
          "out of range. Save the optimizer again.");
  return ids;
}

}  // namespace jitstep
