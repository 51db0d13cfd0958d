// The sections of the rules, and the table that leads to them.
#include <jit/base/text.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/value.h>

#include <algorithm>
#include <set>

#include "../declared.h"
#include "kernels.h"
#include "markdown.h"
#include "pages.h"

namespace jitstep::tool::catalogue {
namespace {

using namespace jitstep::jit;
using emulation::RuleOptions;

using Words = std::vector<std::string>;

// What a table of costs shows of each kernel: its head.
Words cost_head(const Catalog& catalog, Words first) {
  first.push_back("launches");
  for (const std::string& codec : codecs(catalog)) first.push_back(codec);
  return first;
}

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// ---- what is declared --------------------------------------------------------------------------

std::string options_table(const Manifest& manifest) {
  Rows rows = {{"option", "default", "takes", ""}};
  for (const auto* some : {&manifest.hyper, &manifest.flags})
    for (const Option& option : *some) {
      if (option.lifted) continue;
      std::string note = option.note;
      if (!option.at_construction.empty())
        note = text("null: ", code(option.at_construction), " when the group is made",
                    note.empty() ? "" : "; ", note);
      rows.push_back(
          {code(option.name), code(to_string(option.initial)), code(taken_by(option)), note});
    }
  return table(rows);
}

std::string starts_as(const Initial& initial) {
  return initial.option.empty() ? to_string(initial.number) : code(initial.option);
}

std::string slots_table(const Manifest& rule) {
  Rows rows = {{"slot", "in torch", "values", "starts as", "kept if", "kept in"}};
  for (const Slot& slot : rule.slots)
    rows.push_back({code(slot.name), code(slot.torch_name),
                    slot.is_signed ? "signed" : "non-negative", starts_as(slot.initial),
                    slot.condition ? code(written(slot.condition)) : "always",
                    slot.keeps.empty() ? "the chosen codec" : code(slot.keeps)});
  return table(rows);
}

std::string memory_table(const Manifest& rule) {
  Rows rows = {{"memory", "one for each of", "in torch", "type", "starts as", "kept if"}};
  for (const MemoryField& field : rule.memory)
    rows.push_back({code(field.name), code(to_string(field.domain)), code(field.torch_name),
                    field.is_double ? "double" : "real", starts_as(field.initial),
                    field.condition ? code(written(field.condition)) : "always"});
  return table(rows);
}

// ---- what it takes -----------------------------------------------------------------------------

std::string named(const RuleOptions& options) {
  Words words;
  if (options.dims != RuleOptions().dims) words.push_back(text(options.dims, " dimensions"));
  if (!options.values.empty()) words.push_back(code(to_string(options.values)));
  return words.empty() ? "the defaults" : joined(words);
}

// The defaults first, then the options that cost something else than all before.
std::string cost_table(const Manifest& rule, const Catalog& catalog) {
  Rows rows = {cost_head(catalog, {"with"})};
  std::set<Words> seen;
  for (const RuleOptions& options : emulation::cover(rule, catalog)) {
    const Words cells = cost(rule.name, options, catalog);
    if (seen.insert(cells).second) rows.push_back(Words{named(options)} + cells);
  }
  return table(rows);
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

// "`native` (float64, float32), `stochastic` (bfloat16)".
std::string weights_of(const Manifest& rule, const Catalog& catalog) {
  Words formats;
  for (const std::string& name : catalog.names(Manifest::Kind::weights)) {
    std::vector<Dtype> dtypes = catalog.weights(name).dtypes;
    std::erase_if(dtypes, [&](Dtype dtype) { return !takes(rule, name, dtype); });
    if (!dtypes.empty())
      formats.push_back(
          text(code(name), " (", joined(dtypes, ", ", [](Dtype d) { return to_string(d); }), ")"));
  }
  return joined(formats);
}

// "State: `fp8_norm(least_norm=eps)` if `form == original`, else `int8_softsign`, unless another is chosen. "; nothing
// for a rule that leaves it to the library.
std::string state_of(const Manifest& rule) {
  if (rule.default_states.empty()) return "";
  Words states;
  for (const RuleDefault& one : rule.default_states)
    states.push_back(code(to_string(CodecChoice{one.value, one.options})) +
                     (one.condition ? " if " + code(one.condition->written()) : ""));
  if (rule.default_states.back().condition) states.push_back(code("fp32"));
  return text("State: ", joined(states, ", else "), ", unless another is chosen. ");
}

std::string default_weights_of(const Manifest& rule) {
  if (rule.default_weights.empty()) return "";
  return text("; ", code(rule.default_weights),
              ", where it is for the dtype, unless another is chosen");
}

std::string section(const Manifest& rule, const Catalog& catalog) {
  const std::string spelt =
      rule.class_name.empty() ? "No class of its own" : text("`jitstep::", rule.class_name, "`");
  return text("### ", rule.name, "\n\n", rule.description, "\n\n", spelt, "; [", rule.path,
              "](../templates/", rule.path, "). ", state_of(rule),
              "Weights: ", weights_of(rule, catalog), default_weights_of(rule), ".\n\n",
              options_table(rule), slots_table(rule), memory_table(rule),
              cost_table(rule, catalog));
}

}  // namespace

std::string index(const Catalog& catalog) {
  Rows rows = {cost_head(catalog, {"rule", "class", "what it is"})};
  for (const std::string& name : catalog.names(Manifest::Kind::rule)) {
    const Manifest& rule = catalog.rule(name);
    rows.push_back(
        Words{link_to_rule(name), code(rule.class_name), first_sentence(rule.description)} +
        cost(name, {}, catalog));
  }
  return table(rows);
}

std::string common_options(const Catalog& catalog) {
  return "## Options of every rule\n\nA rule's own option of the same name hides the common "
         "one.\n\n" +
         options_table(catalog.gradient());
}

std::string rules(const Catalog& catalog) {
  std::string all = "## Rules\n\n";
  for (const std::string& name : catalog.names(Manifest::Kind::rule))
    all += section(catalog.rule(name), catalog);
  all.pop_back();  // the empty line at the end of the page
  return all;
}

}  // namespace jitstep::tool::catalogue
