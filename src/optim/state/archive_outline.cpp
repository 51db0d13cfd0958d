#include "optim/state/archive_outline.h"

#include <map>
#include <sstream>
#include <utility>

#include "jit/step/shared_sum.h"
#include "jitstep/jit/catalog.h"
#include "optim/state/archive.h"
#include "optim/state/archive_fields.h"
#include "optim/state/checkpoint_folder.h"
#include "optim/state/param_state_data.h"
#include "optim/tensor/errors.h"
#include "optim/tensor/kernel_tensors.h"

namespace jitstep {
namespace {

using torch::serialize::InputArchive;
using Sizes = std::vector<std::int64_t>;

std::int64_t elements_of(const Sizes& sizes) {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes)
    TORCH_CHECK(size >= 0 && !__builtin_mul_overflow(product, size, &product),
                "jitstep: the checkpoint is damaged: it has an invalid shape ",
                torch::IntArrayRef(sizes), ". Save the optimizer again.");
  return product;
}

// Checks the shape against the stored bytes before a tensor of that shape is allocated. A byte has at most two codes. A
// slot without codes stores at least one value per row and column, so elements <= bytes^2.
void check_held(const ParamState& state, std::int64_t elements) {
  const StateBuffers& stored = state.data().buffers;
  const auto most = static_cast<double>(stored.bytes());
  for (std::size_t i = 0; i < stored.slots.size(); ++i) {
    const torch::Tensor& codes = stored.slots[i].codes;
    if (!codes.defined()) continue;
    const auto& codec = jit::default_catalog().codec(stored.format.slots.at(i).value().name);
    const bool coded = codec.code_bits(stored.format.dtype) > 0;
    TORCH_CHECK(coded ? elements <= 2 * codes.numel() : elements <= most * most,
                "jitstep: the checkpoint is damaged: it has ",
                coded ? codes.numel() : stored.bytes(), " bytes of ", coded ? "codes" : "state",
                " in a slot for ", elements, " elements. Save the optimizer again.");
  }
}

torch::Tensor values_in(const ParamState& state) {
  for (const auto& slot : state.data().buffers.slots)
    if (slot.codes.defined()) return slot.codes;
  TORCH_CHECK(
      false,
      "jitstep: the checkpoint does not contain a parameter's shape: its state has none of the ",
      "slots of ", state.rule(),
      ". It is another rule's state, or a state without tensors. Check the name of the rule.");
}

// States that torch saved have no entry for the shape, but each slot has the parameter's shape.
torch::Tensor parameter_like(InputArchive& archive, const ParamState& state) {
  InputArchive formats;
  if (!archive.try_read("jitstep", formats)) return torch::empty_like(values_in(state));
  const Sizes sizes = read_integers(formats, "sizes"), strides = read_integers(formats, "strides");
  TORCH_CHECK(sizes.size() == strides.size(), "jitstep: the checkpoint is damaged: it has ",
              strides.size(), " strides for the shape ", torch::IntArrayRef(sizes),
              ". Save the optimizer again.");
  check_held(state, elements_of(sizes));
  return torch::empty_strided(sizes, strides, torch_dtype(state.data().buffers.format.dtype));
}

// Has as many dimensions as another parameter of the group, because a rule may reject other numbers of dimensions.
torch::Tensor parameter_without_state(const std::map<std::string, torch::Tensor>& others) {
  for (const auto& [key, other] : others)
    if (other.defined()) return torch::empty(Sizes(other.dim(), 0), other.scalar_type());
  return torch::empty({0, 0});
}

// `g`: the group's number in the folder.
OutlinedGroup read_group(InputArchive& archive, InputArchive& states, const std::string& rule,
                         std::size_t g, CheckpointFolder* folder) {
  OutlinedGroup group{.options = make_options(rule), .states = {}, .parameters = {}};
  InputArchive options = read_entry(archive, "options");
  group.options->serialize(options);
  const std::int64_t count = read_size(archive, "params/size");
  TORCH_CHECK(count >= 0 && count <= jit::kMaxTensorIds,
              "jitstep: the checkpoint is damaged: a group has ", count,
              " parameters. Save the optimizer again.");
  group.states = read_states(archive, states, *group.options, static_cast<std::size_t>(count));
  for (std::size_t i = 0; folder != nullptr && i < group.states.size(); ++i)
    if (group.states[i]) folder->read(group.states[i]->data(), {g, i});
  std::vector<std::string> keys;
  std::map<std::string, torch::Tensor> parameters;
  for (std::size_t i = 0; i < group.states.size(); ++i) {
    keys.push_back(read_string(archive, "params/" + std::to_string(i)));
    if (!parameters.try_emplace(keys[i]).second) group.states[i].reset();
    InputArchive state;
    if (group.states[i] && states.try_read(keys[i], state))
      parameters[keys[i]] = parameter_like(state, *group.states[i]);
  }
  const torch::Tensor empty = parameter_without_state(parameters);
  for (auto& [key, p] : parameters)
    p = (p.defined() ? p : torch::empty_like(empty)).set_requires_grad(true);
  for (const std::string& key : keys) group.parameters.push_back(parameters.at(key));
  return group;
}

}  // namespace

std::vector<std::string> archived_rules(InputArchive& archive) {
  TORCH_CHECK(has_layout(archive),
              "jitstep: the checkpoint contains no optimizer, or one from before ",
              "torch 1.5. Name a file that a current optimizer was saved to.");
  InputArchive ours;
  if (!archive.try_read("jitstep", ours)) return {};
  std::vector<std::string> rules;
  std::istringstream names(read_string(ours, "rule"));
  for (std::string rule; std::getline(names >> std::ws, rule, ',');) rules.push_back(rule);
  return rules;
}

std::vector<OutlinedGroup> read_outline(InputArchive& archive,
                                        const std::vector<std::string>& rules,
                                        CheckpointFolder* folder) {
  if (folder == nullptr) check_whole(archive);
  InputArchive states = read_entry(archive, "state");
  InputArchive groups = read_entry(archive, "param_groups");
  const std::int64_t count = read_size(groups, "param_groups/size");
  TORCH_CHECK(rules.size() == 1 || std::ssize(rules) == count,
              "jitstep: the checkpoint is damaged: it has ", count, " parameter groups and ",
              rules.size(), " rules. Save the optimizer again.");
  std::vector<OutlinedGroup> out;
  for (std::int64_t g = 0; g < count; ++g) {
    InputArchive group = read_entry(groups, "param_groups/" + std::to_string(g));
    const auto index = rules.size() == 1 ? 0 : static_cast<std::size_t>(g);
    out.push_back(as_torch_error([&] {
      return read_group(group, states, rules.at(index), static_cast<std::size_t>(g), folder);
    }));
  }
  return out;
}

}  // namespace jitstep
