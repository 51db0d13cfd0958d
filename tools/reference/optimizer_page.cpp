// The page of an optimizer.
#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jitstep/jit/engine.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/value.h>

#include <algorithm>
#include <regex>

#include "../jitstep/cost.h"
#include "../jitstep/declared.h"
#include "markdown.h"
#include "pages.h"

namespace jitstep::reference {
namespace {

using namespace jitstep::jit;
using namespace jitstep::tool;
using Words = std::vector<std::string>;

std::string title_of(const Manifest& rule) {
  return rule.class_name.empty() ? rule.name : rule.class_name;
}

// ---- declarations --------------------------------------------------------------------------------

std::string starts_as(const Initial& initial) {
  return initial.option.empty() ? to_string(initial.number) : code(initial.option);
}

std::string condition_of(const std::optional<Expression>& condition) {
  return condition ? code(written(condition)) : "always";
}

// "`fp8_norm(least_norm=eps)` if `form == original`, else `int8_softsign`". `fp32` for a rule without a default state.
std::string default_state(const Manifest& rule) {
  if (rule.default_states.empty()) return code("fp32");
  Words states;
  for (const RuleDefault& one : rule.default_states)
    states.push_back(code(to_string(CodecChoice{one.value, one.options})) +
                     (one.condition ? " if " + code(one.condition->written()) : ""));
  if (rule.default_states.back().condition) states.push_back(code("fp32"));
  return joined(states, ", else ");
}

std::string slots_table(const Manifest& rule) {
  Rows rows = {{"slot", "in torch", "values", "initial value", "stored if", "default format"}};
  for (const Slot& slot : rule.slots)
    rows.push_back({code(slot.name), code(slot.torch_name),
                    slot.is_signed ? "signed" : "non-negative", starts_as(slot.initial),
                    condition_of(slot.condition),
                    slot.codec.empty() ? default_state(rule)
                                       : code(slot.codec) + ", also under `.state(\"int8\")`"});
  return table(rows);
}

std::string matrices_table(const Manifest& rule) {
  if (rule.matrices.empty()) return "";
  Rows rows = {
      {"matrix", "size", "in torch", "diagonal before step 1", "stored if", "largest side"}};
  for (const MatrixField& matrix : rule.matrices)
    rows.push_back(
        {code(matrix.name), code(str_cat("size(", matrix.rows, ") x size(", matrix.columns, ")")),
         code(matrix.torch_name), starts_as(matrix.initial), condition_of(matrix.condition),
         matrix.largest ? starts_as(*matrix.largest) : std::string()});
  return table(rows);
}

std::string memory_table(const Manifest& rule) {
  Rows rows = {{"auxiliary state", "one per", "in torch", "type", "initial value", "stored if"}};
  for (const AuxField& field : rule.aux_state)
    rows.push_back({code(field.name), code(to_string(field.domain)), code(field.torch_name),
                    field.is_double ? "double" : "real", starts_as(field.initial),
                    condition_of(field.condition)});
  return table(rows);
}

std::string inputs_section(const Manifest& rule) {
  if (rule.inputs.empty()) return "";
  Rows rows = {{"input", "meaning"}};
  for (const RuleInput& input : rule.inputs) rows.push_back({code(input.name), input.note});
  return str_cat("## Inputs\n\n", table(rows), "[How to give an input]",
                 "(../guides/gradients.md#inputs-in-addition-to-gradients).\n\n");
}

bool takes(const Manifest& rule, const std::string& weights, Dtype dtype) {
  KernelSpec spec{.rule = rule.name};
  for (std::size_t i = 0; i < rule.slots.size(); ++i)
    spec.state.slots.emplace_back(CodecChoice{"fp32"});
  spec.state.weights = weights;
  spec.state.dtype = spec.gradient = dtype;
  try {
    resolve(spec);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string weights_table(const Manifest& rule, const Catalog& catalog) {
  Rows rows = {{"weight format", "dtypes", "residual, bytes per parameter"}};
  const std::string own = rule.default_weights.empty() ? "native" : rule.default_weights;
  for (const std::string& name : catalog.names(Manifest::Kind::weights)) {
    std::vector<Dtype> dtypes = catalog.weights(name).dtypes;
    std::erase_if(dtypes, [&](Dtype dtype) { return !takes(rule, name, dtype); });
    if (!dtypes.empty())
      rows.push_back({code(name) + (name == own ? " (default)" : ""),
                      joined(dtypes, ", ", [](Dtype d) { return to_string(d); }),
                      str_cat(catalog.weights(name).residual_bytes())});
  }
  return table(rows);
}

// ---- facts, sample, notes ------------------------------------------------------------------------

std::string paper_of(const Manifest& rule) {
  static const std::regex kArxiv("arXiv (\\d{4}\\.\\d{4,5})"), kGithub("github\\.com/[\\w./-]*\\w");
  std::smatch found;
  if (std::regex_search(rule.description, found, kArxiv))
    return str_cat("[arXiv ", found[1].str(), "](https://arxiv.org/abs/", found[1].str(), ")");
  if (std::regex_search(rule.description, found, kGithub))
    return str_cat("[", found.str(), "](https://", found.str(), ")");
  return "";
}

std::string rule_file(const Manifest& rule) {
  return str_cat("[templates/", rule.path, "](../../templates/", rule.path, ")");
}

std::string facts(const Manifest& rule) {
  const OptionValues options(rule.name);
  const Plan plan = chosen_kernel(options, 2, "fp32");
  Rows rows = {{"", ""}, {"name in a spec", code(rule.name)}};
  if (!rule.class_name.empty())
    rows.push_back({"class", str_cat("`jitstep::", rule.class_name,
                                     "`, `jitstep::", rule.class_name, "Options`")});
  if (const std::string paper = paper_of(rule); !paper.empty()) rows.push_back({"source", paper});
  rows.push_back({"rule file", rule_file(rule)});
  rows.push_back(
      {"state", str_cat(fixed(state_bytes(plan, options).all, 2),
                        " bytes per parameter in `fp32`; [all formats](../reference/bytes.md)")});
  rows.push_back({"launches per step", str_cat(launches_of(plan))});
  return table(rows);
}

bool takes(const OptionValues& values, int dims) {
  try {
    values.validate_dims(dims);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Muon's constructor splits a module into groups, because Muon accepts matrices only.
std::string parameters_of(const Manifest& rule) {
  return takes(OptionValues(rule.name), 1) ? "model->parameters()" : "*model";
}

std::string sample(const Manifest& rule) {
  if (rule.class_name.empty())
    return str_cat("```cpp\njitstep::Optimizer optimizer(\"", rule.name,
                   "\", {model->parameters()});\n```\n\n");
  const std::string lr = to_string(OptionValues(rule.name).get("lr"));
  const bool has_state = !rule.slots.empty();
  return str_cat(
      "```cpp\n#include <jitstep/jitstep.h>\n\njitstep::", rule.class_name, " optimizer(",
      parameters_of(rule), ", jitstep::", rule.class_name, "Options(", lr, ")",
      has_state ? ".state(\"int8\")" : "", ");\n",
      rule.modes ? "optimizer.train();  // and optimizer.eval() before evaluation\n" : "",
      "optimizer.zero_grad();\nloss.backward();\noptimizer.step();\n```\n\n");
}

std::string notes(const Manifest& rule) {
  const std::string first = first_sentence(rule.description);
  std::string rest = rule.description.substr(first.size());
  rest.erase(0, rest.find_first_not_of(' '));
  Words all;
  if (!rest.empty()) all.push_back(rest);
  for (const Refusal& refusal : rule.refusals)
    all.push_back(
        str_cat("Invalid if ", code(refusal.condition.written()), ": ", refusal.sentence, "."));
  if (!rule.transforms.empty())
    all.push_back(str_cat(
        "A step runs the host transform", rule.transforms.size() > 1 ? "s " : " ",
        joined(rule.transforms, ", ", [](const RuleTransform& one) { return code(one.host); }),
        " on whole tensors, with matrix products of torch."));
  std::string out;
  for (const std::string& note : all) out += "- " + note + "\n";
  return out.empty() ? "" : "## Notes\n\n" + out + "\n";
}

// The struct of the rule file that computes a step.
std::string formulas(const Manifest& rule) {
  const std::string file = default_engine().templates().find(rule.source).value();
  const std::size_t begin = file.find("struct Rule {"), end = file.find("\n};\n", begin);
  if (end == file.npos) throw Error(str_cat(rule.path, " has no struct Rule."));
  return str_cat(
      "## Formulas\n\n",
      "`prepare` runs once per step. `update_state` and `update_param` run for each element `e`. ",
      "[Write an optimizer](../extending/optimizer.md) explains them. From ", rule_file(rule),
      ":\n\n```cuda\n", file.substr(begin, end + 4 - begin), "```\n\n");
}

std::string state_section(const Manifest& rule) {
  const std::string tables = slots_table(rule) + memory_table(rule) + matrices_table(rule);
  return "## State\n\n" + (tables.empty() ? "This optimizer has no state.\n\n" : tables);
}

}  // namespace

std::string options_table(const Manifest& manifest) {
  Rows rows = {{"option", "default", "range", "notes"}};
  for (const auto* some : {&manifest.hyper, &manifest.flags})
    for (const Option& option : *some) {
      if (option.lifted) continue;
      std::string note = option.note;
      if (!option.at_construction.empty())
        note = str_cat("null: ", code(option.at_construction), " when the group is added",
                       note.empty() ? "" : "; ", note);
      rows.push_back(
          {code(option.name), code(to_string(option.initial)), code(range_of(option)), note});
    }
  return table(rows);
}

Page optimizer_page(const Manifest& rule, const Catalog& catalog) {
  return {str_cat("optimizers/", rule.name, ".md"),
          str_cat(kGenerated, "# ", title_of(rule), "\n\n", first_sentence(rule.description),
                  "\n\n", facts(rule), sample(rule), "## Options\n\n", options_table(rule),
                  "[Options of every optimizer](index.md#options-of-every-optimizer).\n\n",
                  inputs_section(rule), state_section(rule), "## Weight formats\n\n",
                  weights_table(rule, catalog), notes(rule), formulas(rule))};
}

}  // namespace jitstep::reference
