#include "declared_tables.h"

#include <jit/base/text.h>
#include <jit/base/text_table.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "declared.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
using nlohmann::json;
using Rows = std::vector<std::vector<std::string>>;

// A table followed by an empty line. Empty if the table has only a header row.
std::string section(const Rows& rows) { return rows.size() < 2 ? "" : text_table(rows) + "\n"; }

std::string default_of(const Option& option) {
  if (option.lifted) return "";
  if (option.at_construction.empty()) return to_string(option.initial);
  return option.at_construction + " at construction";
}

std::string options(const Manifest& manifest) {
  Rows rows = {{"option", "default", "range"}};
  for (const auto* some : {&manifest.hyper, &manifest.flags})
    for (const Option& option : *some)
      rows.push_back({option.name, default_of(option), range_of(option)});
  return section(rows);
}

std::string slots(const Manifest& manifest) {
  Rows rows = {{"slot", "values", "in torch", "stored if"}};
  for (const Slot& slot : manifest.slots)
    rows.push_back({slot.name, slot.is_signed ? "signed" : "non-negative", slot.torch_name,
                    written(slot.condition)});
  return section(rows);
}

std::string inputs(const Manifest& manifest) {
  Rows rows = {{"input", "meaning"}};
  for (const RuleInput& input : manifest.inputs) rows.push_back({input.name, input.note});
  return section(rows);
}

std::string aux_state(const Manifest& manifest) {
  Rows rows = {{"auxiliary state", "one per", "type", "in torch", "stored if"}};
  for (const AuxField& field : manifest.aux_state)
    rows.push_back({field.name, to_string(field.domain), field.is_double ? "double" : "real",
                    field.torch_name, written(field.condition)});
  return section(rows);
}

std::string matrices(const Manifest& manifest) {
  Rows rows = {{"matrix", "rows", "columns", "in torch", "stored if"}};
  for (const MatrixField& matrix : manifest.matrices)
    rows.push_back({matrix.name, str_cat("size(", matrix.rows, ")"),
                    str_cat("size(", matrix.columns, ")"), matrix.torch_name,
                    written(matrix.condition)});
  return section(rows);
}

// ---- JSON --------------------------------------------------------------------------------------

json json_of(const Value& value) {
  if (value.is_bool()) return value.boolean();
  if (value.is_number()) return value.number();
  if (value.is_choice()) return value.choice();
  if (!value.is_numbers()) return nullptr;
  json numbers = json::array();
  for (const double x : value.numbers()) numbers.push_back(std::isnan(x) ? json() : json(x));
  return numbers;
}

json json_of(const std::optional<Expression>& condition) {
  return condition ? json(condition->written()) : json();
}

json options_of(const Manifest& manifest) {
  json all = json::array();
  for (const auto* some : {&manifest.hyper, &manifest.flags})
    for (const Option& option : *some)
      all.push_back({{"name", option.name},
                     {"default", option.lifted ? json() : json_of(option.initial)},
                     {"at_construction",
                      option.at_construction.empty() ? json() : json(option.at_construction)},
                     {"computed", option.lifted.has_value()},
                     {"range", range_of(option)},
                     {"note", option.note}});
  return all;
}

json slots_of(const Manifest& manifest) {
  json all = json::array();
  for (const Slot& slot : manifest.slots)
    all.push_back({{"name", slot.name},
                   {"signed", slot.is_signed},
                   {"torch", slot.torch_name},
                   {"if", json_of(slot.condition)}});
  return all;
}

json inputs_of(const Manifest& manifest) {
  json all = json::array();
  for (const RuleInput& input : manifest.inputs)
    all.push_back({{"name", input.name}, {"note", input.note}});
  return all;
}

json aux_state_of(const Manifest& manifest) {
  json all = json::array();
  for (const AuxField& field : manifest.aux_state)
    all.push_back({{"name", field.name},
                   {"domain", to_string(field.domain)},
                   {"type", field.is_double ? "double" : "real"},
                   {"torch", field.torch_name},
                   {"if", json_of(field.condition)}});
  return all;
}

json matrices_of(const Manifest& manifest) {
  json all = json::array();
  for (const MatrixField& matrix : manifest.matrices)
    all.push_back({{"name", matrix.name},
                   {"rows", matrix.rows},
                   {"columns", matrix.columns},
                   {"torch", matrix.torch_name},
                   {"if", json_of(matrix.condition)}});
  return all;
}

}  // namespace

std::string kind_name(Manifest::Kind kind) {
  if (kind == Manifest::Kind::codec) return "codec";
  return kind == Manifest::Kind::weights ? "weight format" : "rule";
}

std::string declared_text(const Manifest& manifest, const std::string& path) {
  const std::string name =
      manifest.class_name.empty() ? "" : str_cat(", class ", manifest.class_name);
  return str_cat(path, ": the ", kind_name(manifest.kind), " ", manifest.name, name, "\n",
                 manifest.description, "\n\n", options(manifest), slots(manifest), inputs(manifest),
                 aux_state(manifest), matrices(manifest));
}

json declared_json(const Manifest& manifest) {
  return {{"kind", kind_name(manifest.kind)}, {"name", manifest.name},
          {"class", manifest.class_name},     {"description", manifest.description},
          {"options", options_of(manifest)},  {"slots", slots_of(manifest)},
          {"inputs", inputs_of(manifest)},    {"aux_state", aux_state_of(manifest)},
          {"matrices", matrices_of(manifest)}};
}

}  // namespace jitstep::tool
