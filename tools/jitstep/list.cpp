// jitstep list: what there is, a line for each.
#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jit/compiler/nvrtc_library.h>
#include <jitstep/jit/catalog.h>
#include <jitstep/jit/error.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "command.h"
#include "compilers.h"
#include "declared.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
using Rows = std::vector<std::vector<std::string>>;

// The first row is the head.
Rows rules() {
  const Catalog& catalog = default_catalog();
  Rows rows = {{"rule", "class", "what it is"}};
  for (const std::string& name : catalog.names(Manifest::Kind::rule)) {
    const Manifest& rule = catalog.rule(name);
    rows.push_back({name, rule.class_name, first_sentence(rule.description)});
  }
  return rows;
}

Rows codecs() {
  const Catalog& catalog = default_catalog();
  Rows rows = {{"codec", "bits", "bytes of a block beside", "what it is"}};
  for (const std::string& name : catalog.names(Manifest::Kind::codec)) {
    const Manifest& codec = catalog.codec(name);
    rows.push_back({name, text(codec.code_bits(Dtype::float32)), text(codec.meta_bytes()),
                    first_sentence(codec.description)});
  }
  return rows;
}

Rows weights() {
  const Catalog& catalog = default_catalog();
  Rows rows = {{"weights", "for parameters of", "bytes beside each", "what it is"}};
  for (const std::string& name : catalog.names(Manifest::Kind::weights)) {
    const Manifest& format = catalog.weights(name);
    rows.push_back({name, joined(format.dtypes, ", ", [](Dtype d) { return to_string(d); }),
                    text(format.extra_bytes()), first_sentence(format.description)});
  }
  return rows;
}

// "ready", or in one line why there are no kernels for it here.
std::string readiness(const Target& target) {
  try {
    compiler_identity(target);
    return "ready";
  } catch (const Error& error) {
    const std::string problem = error.what();
    return problem.substr(0, problem.find('\n'));
  }
}

Rows targets() {
  Rows rows = {{"target", "compiler", "kernels here"}};
  rows.push_back({"cpu", "the host's", readiness(Target::cpu())});
  rows.push_back({"emulated", "the host's", readiness(Target::emulated())});
  std::string problem;
  const auto nvrtc = find_nvrtc(Settings::from_environment(), 0, problem);
  if (!nvrtc) {
    rows.push_back({"sm_NN", "NVRTC", problem});
    return rows;
  }
  for (const int sm : nvrtc->archs)
    rows.push_back({to_string(Target::cuda(sm)), "NVRTC " + nvrtc->version(), "ready"});
  return rows;
}

struct Table {
  const char* name;
  const char* what;
  Rows (*rows)();
};

constexpr Table kTables[] = {
    {"rules", "The optimizers", &rules},
    {"codecs", "What a slot of state can be kept in", &codecs},
    {"weights", "What parameters can be kept in", &weights},
    {"targets", "What kernels can be compiled for, and whether here", &targets}};

nlohmann::json to_json(const Rows& rows) {
  nlohmann::json all = nlohmann::json::array();
  for (std::size_t i = 1; i < rows.size(); ++i) {
    nlohmann::json one;
    for (std::size_t column = 0; column < rows[i].size(); ++column)
      one[rows[0][column]] = rows[i][column];
    all.push_back(std::move(one));
  }
  return all;
}

void print_all(bool json) {
  nlohmann::json all;
  for (const Table& table : kTables) {
    const Rows rows = table.rows();
    if (json) all[table.name] = to_json(rows);
    if (!json) std::cout << (&table == kTables ? "" : "\n") << text_table(rows);
  }
  if (json) std::cout << all.dump(2) << "\n";
}

}  // namespace

void add_list_command(CLI::App& app, int& status) {
  CLI::App* const list =
      app.add_subcommand("list", "Names every rule, codec, weight format and target");
  list->require_subcommand(0, 1);
  const auto all_json = std::make_shared<bool>(false);
  list->add_flag("--json", *all_json, "Prints an object with an array of objects for each table");
  list->callback([list, all_json, &status] {
    if (!list->get_subcommands().empty()) return;
    print_all(*all_json);
    status = 0;
  });
  for (const auto& [name, what, rows] : kTables) {
    CLI::App* const command = list->add_subcommand(name, what);
    const auto json = std::make_shared<bool>(false);
    command->add_flag("--json", *json, "Prints an array of objects, one for each line");
    command->callback([json, &status, rows = rows] {
      std::cout << (*json ? to_json(rows()).dump(2) + "\n" : text_table(rows()));
      status = 0;
    });
  }
}

}  // namespace jitstep::tool
