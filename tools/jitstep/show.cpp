// jitstep show: prints the declarations and the source of one rule, codec or weight format.
#include <jit/base/closest.h>
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

#include "command.h"
#include "cost.h"
#include "declared_tables.h"
#include "flag_values.h"
#include "json_output.h"
#include "template_file.h"
#include "usage.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
using Kind = Manifest::Kind;

constexpr const char* kFooter =
    "Prints options with their defaults and ranges, state slots, bytes per parameter and "
    "source.\n\n"
    "Examples:\n"
    "  jitstep show adamw\n"
    "  jitstep show ./mine.cuh --json";

// The manifest, the path and the source of a name.
struct Shown {
  const Manifest* manifest;
  std::string path, source;
};

Shown of_file(const std::string& path) { return {&load_file(path), path, read_code_file(path)}; }

const Manifest& named(const Catalog& catalog, Kind kind, const std::string& name) {
  if (kind == Kind::rule) return catalog.rule(name);
  return kind == Kind::codec ? catalog.codec(name) : catalog.weights(name);
}

// A name may belong to several kinds. A rule has precedence over a codec, and a codec over a weight format.
Shown find(const std::string& name) {
  if (is_path(name)) return of_file(name);
  const Catalog& catalog = default_catalog();
  for (const Kind kind : {Kind::rule, Kind::codec, Kind::weights}) {
    if (!catalog.has(kind, name)) continue;
    const Manifest& manifest = named(catalog, kind, name);
    return {&manifest, manifest.path,
            default_engine().templates().find(manifest.source).value_or("")};
  }
  throw UsageError(str_cat("there is no rule, codec or weight format \"", name, "\"",
                           did_you_mean(name, values_of("name")), ". `jitstep list` lists all."));
}

// Launches per step, and bytes of state per parameter by codec.
struct Cost {
  int launches = 0;
  std::vector<std::pair<std::string, double>> bytes;
};

Cost cost_of(const Manifest& rule) {
  const OptionValues options(rule.name);
  Cost cost{launches_of(chosen_kernel(options, 2, "fp32")), {}};
  for (const std::string& codec : codec_columns(default_catalog()))
    cost.bytes.emplace_back(codec, state_bytes(chosen_kernel(options, 2, codec), options).all);
  return cost;
}

std::string to_text(const Cost& cost) {
  std::vector<std::vector<std::string>> rows = {{"state", "bytes/parameter"}};
  for (const auto& [codec, bytes] : cost.bytes) rows.push_back({codec, fixed(bytes, 3)});
  return str_cat(text_table(rows, {1}),
                 "\nfor a float32 matrix of 1024 x 1024; launches per step: ", cost.launches,
                 "\n\n");
}

std::string to_text(const Shown& shown) {
  const bool rule = shown.manifest->kind == Kind::rule;
  return str_cat(declared_text(*shown.manifest, shown.path),
                 rule ? to_text(cost_of(*shown.manifest)) : "", "---- ", shown.path, "\n",
                 shown.source);
}

nlohmann::json to_json(const Shown& shown) {
  nlohmann::json out = declared_json(*shown.manifest);
  out["path"] = shown.path;
  out["source"] = shown.source;
  if (shown.manifest->kind != Kind::rule) return out;
  const Cost cost = cost_of(*shown.manifest);
  out["launches"] = cost.launches;
  for (const auto& [codec, bytes] : cost.bytes) out["state_bytes_per_parameter"][codec] = bytes;
  return out;
}

}  // namespace

void add_show_command(CLI::App& app, int& status) {
  CLI::App* const command =
      add_command(app, kExplore, "show", "Show a rule, codec or weight format");
  command->footer(kFooter);
  const auto name = std::make_shared<std::string>();
  const auto json = std::make_shared<bool>(false);
  command->add_option("name", *name, "A name, or your own file")->type_name("NAME")->required();
  add_json_flag(*command, *json);
  command->callback([name, json, &status] {
    const Shown shown = find(*name);
    std::cout << (*json ? json_text(to_json(shown)) : to_text(shown));
    status = kSuccess;
  });
}

}  // namespace jitstep::tool
