// jitstep show: one rule, codec or weight format, as its file declares and writes it.
#include <jit/base/private_files.h>
#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jitstep/jit/catalog.h>
#include <jitstep/jit/engine.h>
#include <jitstep/jit/error.h>

#include <array>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "catalogue/kernels.h"
#include "command.h"
#include "declared_tables.h"
#include "template_file.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
using Kind = Manifest::Kind;

// What is shown: its manifest, what it is called, and its text.
struct Shown {
  const Manifest* manifest;
  std::string path, source;
};

Shown of_file(const std::string& path) { return {&load_file(path), path, read_code_file(path)}; }

const Manifest& named(const Catalog& catalog, Kind kind, const std::string& name) {
  if (kind == Kind::rule) return catalog.rule(name);
  return kind == Kind::codec ? catalog.codec(name) : catalog.weights(name);
}

// A rule before a codec before a weight format, should a folder of templates have several of a name.
Shown find(const std::string& word) {
  if (is_file(word)) return of_file(word);
  const Catalog& catalog = default_catalog();
  for (const Kind kind : {Kind::rule, Kind::codec, Kind::weights}) {
    if (!catalog.has(kind, word)) continue;
    const Manifest& manifest = named(catalog, kind, word);
    return {&manifest, manifest.path,
            default_engine().templates().find(manifest.source).value_or("")};
  }
  throw Error(text("there is no rule, codec or weight format \"", word,
                   "\"; `jitstep list rules`, `codecs` and `weights` name them all"));
}

// Bytes that a rule's state takes for a parameter, by codec; launches come first.
struct Cost {
  std::string launches;
  std::vector<std::pair<std::string, std::string>> bytes;
};

Cost cost_of(const Manifest& rule) {
  const Catalog& catalog = default_catalog();
  const std::vector<std::string> cells = catalogue::cost(rule.name, {}, catalog);
  const std::vector<std::string> codecs = catalogue::codecs(catalog);
  Cost cost{cells.at(0), {}};
  for (std::size_t i = 0; i < codecs.size(); ++i) cost.bytes.emplace_back(codecs[i], cells[i + 1]);
  return cost;
}

std::string to_text(const Cost& cost) {
  std::vector<std::vector<std::string>> rows = {{"state in", "bytes/parameter"}};
  for (const auto& [codec, bytes] : cost.bytes) rows.push_back({codec, bytes});
  return text(text_table(rows, {1}),
              "\nof a float32 matrix of 1024 x 1024; launches of a step: ", cost.launches, "\n\n");
}

std::string to_text(const Shown& shown) {
  const bool rule = shown.manifest->kind == Kind::rule;
  return text(declared_text(*shown.manifest, shown.path),
              rule ? to_text(cost_of(*shown.manifest)) : "", "---- ", shown.path, "\n",
              shown.source);
}

nlohmann::json to_json(const Shown& shown) {
  nlohmann::json out = declared_json(*shown.manifest);
  out["path"] = shown.path;
  out["source"] = shown.source;
  if (shown.manifest->kind != Kind::rule) return out;
  const Cost cost = cost_of(*shown.manifest);
  out["launches"] = std::stoi(cost.launches);
  for (const auto& [codec, bytes] : cost.bytes)
    out["state_bytes_per_parameter"][codec] = std::stod(bytes);
  return out;
}

}  // namespace

void add_show_command(CLI::App& app, int& status) {
  CLI::App* const command = app.add_subcommand(
      "show", "Prints a rule, codec or weight format: options, slots, what it takes, formulas");
  const auto word = std::make_shared<std::string>();
  const auto json = std::make_shared<bool>(false);
  command->add_option("name", *word, "A name, or a file of yours")->required();
  command->add_flag("--json", *json, "Prints one object");
  command->callback([word, json, &status] {
    const Shown shown = find(*word);
    std::cout << (*json ? to_json(shown).dump(2, ' ', false,
                                              nlohmann::json::error_handler_t::replace) +
                              "\n"
                        : to_text(shown));
    status = 0;
  });
}

}  // namespace jitstep::tool
