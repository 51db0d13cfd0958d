#include "conversion.h"

#include <jit/base/closest.h>
#include <jit/base/text.h>
#include <jitstep/jit/catalog.h>
#include <jitstep/jit/error.h>
#include <jitstep/optimizer.h>
#include <optim/state/archive_file.h>
#include <optim/state/archive_outline.h>
#include <optim/state/checkpoint_folder.h>
#include <optim/state/param_state_data.h>
#include <torch/types.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "../jitstep/usage.h"

namespace jitstep::tool::convert {
namespace {

using jit::Error;
using jit::Formats;
using jit::Manifest;
using jit::str_cat;
using Groups = std::vector<OutlinedGroup>;

std::vector<std::string> rules_of(torch::serialize::InputArchive& archive, const Request& request) {
  std::vector<std::string> rules = archived_rules(archive);
  if (!rules.empty() && !request.rule.empty() && rules != std::vector{request.rule})
    throw UsageError(str_cat("wrong --rule ", request.rule, ": ", request.from, " has state of ",
                             jit::joined(rules),
                             ". Leave --rule out: it is for files that name no ", "optimizer."));
  if (rules.empty() && request.rule.empty())
    throw UsageError(
        str_cat(request.from,
                " does not name its optimizer, like all checkpoints of torch. Pass --rule, "
                "as in --rule adamw."));
  if (rules.empty()) rules = {request.rule};
  for (const std::string& rule : rules)
    if (!jit::default_catalog().has(Manifest::Kind::rule, rule))
      throw Error(str_cat(request.from, " has state of the rule ", rule,
                          ", which does not ship with jitstep. Pass its file with --load."));
  return rules;
}

// ---- formats -----------------------------------------------------------------------------------

// Throws a UsageError for an unknown format.
void check_names(const Formats& requested) {
  as_usage([&] {
    const jit::Catalog& catalog = jit::default_catalog();
    if (requested.weights) catalog.weights(*requested.weights);
    if (requested.state) catalog.codec(requested.state->name);
    for (const auto& [slot, codec] : requested.slots) catalog.codec(codec.name);
  });
}

void check_formats(const Formats& requested, const Groups& groups) {
  check_names(requested);
  if (requested.weights && jit::default_catalog().weights(*requested.weights).residual_bytes() > 0)
    throw UsageError(
        str_cat("cannot convert to --weights ", *requested.weights,
                ": its residual needs the parameters. Load the checkpoint into an optimizer with "
                "its parameters, and save that."));
  std::set<std::string> known;
  for (const OutlinedGroup& group : groups)
    for (const jit::Slot& slot : group.options->manifest().slots)
      known.insert({slot.name, slot.torch_name});
  for (const auto& [slot, codec] : requested.slots)
    if (!known.contains(slot))
      throw UsageError(str_cat("--state ", slot, "=", codec.name, ": there is no slot \"", slot,
                               "\"", jit::did_you_mean(slot, {known.begin(), known.end()}),
                               ". Slots: ", jit::joined(known), "."));
}

// With several rules, a named slot applies to the rules that have it.
Formats formats_for(const Options& saved, const Formats& requested) {
  Formats formats = requested;
  const auto& slots = saved.manifest().slots;
  std::erase_if(formats.slots, [&](const auto& named) {
    return std::none_of(slots.begin(), slots.end(), [&](const jit::Slot& slot) {
      return slot.name == named.first || slot.torch_name == named.first;
    });
  });
  formats.inherit(saved.formats(), saved.manifest());
  return formats;
}

// ---- the optimizer -----------------------------------------------------------------------------

// A conversion takes no steps, so it does not need the functions of the rules' host transforms.
void stand_in_for_transforms(const jit::Manifest& rule) {
  for (const jit::RuleTransform& one : rule.transforms) try {
      register_host_transform(one.host,
                              [](const torch::Tensor&, const jit::OptionValues&) -> torch::Tensor {
                                throw Error("a conversion takes no steps");
                              });
    } catch (const c10::Error&) {  // it exists
    }
}

Optimizer optimizer_of(const Groups& groups, const std::vector<std::string>& rules,
                       const Formats& requested) {
  std::vector<Optimizer::ParamGroup> result;
  for (const OutlinedGroup& group : groups) {
    stand_in_for_transforms(group.options->manifest());
    auto options = group.options->copy();
    options->edit_formats() = formats_for(*options, requested);
    result.emplace_back(group.parameters, std::move(options));
  }
  return rules.size() == 1 ? Optimizer(rules.front(), result) : Optimizer(result);
}

// ---- the report --------------------------------------------------------------------------------

std::string format_of(const StateBuffers& buffers, std::size_t slot) {
  if (slot >= buffers.slots.size() || !buffers.slots[slot].codes.defined()) return "";
  switch (buffers.slots[slot].codes.scalar_type()) {  // torch saves state in the parameter's dtype
    case torch::kBFloat16:
      return "bf16";
    case torch::kFloat16:
      return "fp16";
    default:
      break;
  }
  return jit::to_string(*buffers.format.slots[slot]);
}

std::string weights_of(const StateBuffers& buffers) {
  return buffers.residual.defined() ? buffers.format.weights : "";
}

// Counts parameters by component, old format and new format.
class Counts {
 public:
  void add(const std::string& what, const std::string& from, const std::string& to) {
    if (from.empty() && to.empty()) return;
    const auto same = [&](const Entry& entry) {
      return entry.what == what && entry.from == from && entry.to == to;
    };
    const auto found = std::find_if(entries.begin(), entries.end(), same);
    if (found == entries.end())
      entries.push_back({what, from, to, 1});
    else
      ++found->parameters;
  }

  std::vector<Entry> entries;
};

void count(const ParamState& before, const ParamState& now, Counts& counts) {
  const auto& slots = jit::default_catalog().rule(before.rule()).slots;
  for (std::size_t i = 0; i < slots.size(); ++i)
    counts.add(slots[i].name, format_of(before.data().buffers, i),
               format_of(now.data().buffers, i));
  counts.add("weight residual", weights_of(before.data().buffers), weights_of(now.data().buffers));
}

Conversion report(const Groups& groups, const Optimizer& optimizer,
                  const std::vector<std::string>& rules) {
  Conversion result;
  result.rules = rules;
  Counts counts;
  for (const OutlinedGroup& group : groups)
    for (std::size_t i = 0; i < group.states.size(); ++i) {
      ++result.parameters;
      if (!group.states[i]) continue;
      const torch::Tensor& p = group.parameters[i];
      const auto& now =
          static_cast<const ParamState&>(*optimizer.state().at(p.unsafeGetTensorImpl()));
      ++result.with_state;
      result.elements += p.numel();
      result.state_bytes_before += group.states[i]->bytes();
      result.state_bytes += now.bytes();
      count(*group.states[i], now, counts);
    }
  result.entries = std::move(counts.entries);
  std::stable_sort(result.entries.begin(), result.entries.end(),
                   [](const Entry& a, const Entry& b) { return a.what < b.what; });
  return result;
}

}  // namespace

Conversion convert(const Request& request) {
  std::error_code unreadable;  // the error of writing the file explains it
  if (!request.overwrite &&
      std::filesystem::exists(std::filesystem::symlink_status(request.to, unreadable)))
    throw Error(str_cat(request.to, " exists already. Name another file, or pass --overwrite."));
  const auto folder = open_folder(request.from);
  torch::serialize::InputArchive file;
  if (!folder) file = open_archive(request.from);
  auto& archive = folder ? folder->archive() : file;
  const std::vector<std::string> rules = rules_of(archive, request);
  const Groups groups = read_outline(archive, rules, folder.get());
  check_formats(request.formats, groups);
  Optimizer optimizer = optimizer_of(groups, rules, request.formats);
  if (folder)
    optimizer.load(request.from);
  else
    optimizer.load(archive);
  if (request.ranks > 0)
    optimizer.save_parts(request.to, request.ranks);
  else
    optimizer.save(request.to);
  return report(groups, optimizer, rules);
}

}  // namespace jitstep::tool::convert
