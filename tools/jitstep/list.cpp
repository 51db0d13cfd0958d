// jitstep list: all rules, codecs, weight formats and targets, one per line.
#include <jit/base/lines.h>
#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jit/compiler/nvrtc_library.h>
#include <jitstep/jit/catalog.h>
#include <jitstep/jit/error.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "command.h"
#include "compilers.h"
#include "declared.h"
#include "json_output.h"
#include "usage.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
using nlohmann::json;

// `head` has the JSON keys. The text output replaces "_" by a space. Cells are JSON values, so that numbers stay
// numbers.
struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<json>> rows = {};
};

Table rules() {
  const Catalog& catalog = default_catalog();
  Table table{{"rule", "class", "description"}};
  for (const std::string& name : catalog.names(Manifest::Kind::rule)) {
    const Manifest& rule = catalog.rule(name);
    table.rows.push_back({name, rule.class_name, first_sentence(rule.description)});
  }
  return table;
}

Table codecs() {
  const Catalog& catalog = default_catalog();
  Table table{{"codec", "bits", "block_bytes", "description"}};
  for (const std::string& name : catalog.names(Manifest::Kind::codec)) {
    const Manifest& codec = catalog.codec(name);
    table.rows.push_back({name, codec.code_bits(Dtype::float32), codec.meta_bytes(),
                          first_sentence(codec.description)});
  }
  return table;
}

Table weights() {
  const Catalog& catalog = default_catalog();
  Table table{{"weights", "dtypes", "residual_bytes", "description"}};
  for (const std::string& name : catalog.names(Manifest::Kind::weights)) {
    const Manifest& format = catalog.weights(name);
    json dtypes = json::array();
    for (const Dtype dtype : format.dtypes) dtypes.push_back(to_string(dtype));
    table.rows.push_back(
        {name, dtypes, format.residual_bytes(), first_sentence(format.description)});
  }
  return table;
}

// "ready", or the first line of the reason why kernels for the target cannot be compiled here.
std::string readiness(const Target& target) {
  try {
    compiler_identity(target);
    return "ready";
  } catch (const Error& error) {
    return first_line(error.what());
  }
}

Table targets() {
  Table table{{"target", "compiler", "status"}};
  table.rows.push_back({"cpu", "host", readiness(Target::cpu())});
  table.rows.push_back({"emulated", "host", readiness(Target::emulated())});
  std::string problem;
  const auto nvrtc = find_nvrtc(Settings::from_environment(), 0, problem);
  if (!nvrtc) {
    table.rows.push_back({"sm_NN", "NVRTC", problem});
    return table;
  }
  for (const int sm : nvrtc->archs)
    table.rows.push_back({to_string(Target::cuda(sm)), "NVRTC " + nvrtc->version(), "ready"});
  return table;
}

struct Listing {
  const char* name;
  const char* what;
  Table (*table)();
};

constexpr Listing kListings[] = {
    {"rules", "List optimizers", &rules},
    {"codecs", "List state formats", &codecs},
    {"weights", "List weight formats", &weights},
    {"targets", "List targets, and whether they compile here", &targets}};

std::string cell(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) return joined(value, ", ", [](const json& one) { return cell(one); });
  return value.dump();
}

std::string to_text(const Table& table) {
  std::vector<std::vector<std::string>> rows(1);
  for (std::string name : table.head) {
    std::replace(name.begin(), name.end(), '_', ' ');
    rows[0].push_back(std::move(name));
  }
  for (const auto& row : table.rows) {
    rows.emplace_back();
    for (const json& value : row) rows.back().push_back(cell(value));
  }
  return text_table(rows);
}

json to_json(const Table& table) {
  json all = json::array();
  for (const auto& row : table.rows) {
    json one;
    for (std::size_t i = 0; i < row.size(); ++i) one[table.head[i]] = row[i];
    all.push_back(std::move(one));
  }
  return all;
}

void print(std::span<const Listing> listings, bool as_json) {
  json all;
  for (const Listing& one : listings) {
    const Table table = one.table();
    if (as_json)
      all[one.name] = to_json(table);
    else
      std::cout << (&one == listings.data() ? "" : "\n") << to_text(table);
  }
  if (as_json) std::cout << json_text(all);
}

constexpr const char* kFooter =
    "Examples:\n"
    "  jitstep list\n"
    "  jitstep list codecs --json";

}  // namespace

void add_list_command(CLI::App& app, int& status) {
  CLI::App* const list =
      add_command(app, kExplore, "list", "List rules, codecs, weight formats and targets");
  list->require_subcommand(0, 1);
  const auto as_json = std::make_shared<bool>(false);  // before or after the name of a list
  add_json_flag(*list, *as_json);
  list->callback([list, as_json, &status] {
    status = kSuccess;
    if (list->get_subcommands().empty()) print(kListings, *as_json);
  });
  for (const Listing& one : kListings) {
    CLI::App* const command = list->add_subcommand(one.name, one.what);
    add_json_flag(*command, *as_json);
    command->callback([as_json, &one] { print({&one, 1}, *as_json); });
  }
  list->footer(kFooter);
}

}  // namespace jitstep::tool
