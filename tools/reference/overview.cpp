// The index of optimizers, and the table of state bytes.
#include <jit/base/text.h>
#include <jit/base/text_table.h>

#include "../jitstep/cost.h"
#include "../jitstep/declared.h"
#include "markdown.h"
#include "pages.h"

namespace jitstep::reference {
namespace {

using namespace jitstep::jit;
using namespace jitstep::tool;
using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string launches(const OptionValues& options) {
  return str_cat(launches_of(chosen_kernel(options, 2, "fp32")));
}

std::string bytes_in(const OptionValues& options, const std::string& codec) {
  return fixed(state_bytes(chosen_kernel(options, 2, codec), options).all, 2);
}

std::string slots_of(const Manifest& rule) {
  return joined(rule.slots, ", ", [](const Slot& slot) {
    const std::string& name = slot.torch_name.empty() ? slot.name : slot.torch_name;
    return code(name) + (slot.condition ? "?" : "");
  });
}

}  // namespace

std::vector<std::string> state_bytes_cells(const OptionValues& options, int dims) {
  Words cells;
  for (const std::string& codec : codec_columns(default_catalog()))
    cells.push_back(fixed(state_bytes(chosen_kernel(options, dims, codec), options).all, 3));
  return cells;
}

Page optimizer_index(const Catalog& catalog) {
  Rows rows = {
      {"optimizer", "description", "state slots", "fp32, bytes", "int8, bytes", "launches"}};
  for (const std::string& name : catalog.names(Manifest::Kind::rule)) {
    const Manifest& rule = catalog.rule(name);
    const OptionValues options(name);
    const std::string& title = rule.class_name.empty() ? name : rule.class_name;
    rows.push_back({str_cat("[", title, "](", name, ".md)"), first_sentence(rule.description),
                    slots_of(rule), bytes_in(options, "fp32"), bytes_in(options, "int8"),
                    launches(options)});
  }
  return {
      "optimizers/index.md",
      str_cat(kGenerated, "# Optimizers\n\n", rows.size() - 1, " optimizers ship with jitstep. ",
              "Bytes are those of the state per parameter with default options. A slot with \"?\" "
              "depends on an option. [All state formats](../reference/bytes.md), "
              "[how to choose](../guides/choosing-an-optimizer.md).\n\n",
              table(rows),
              "## Options of every optimizer\n\nAn optimizer's own option of the same "
              "name hides the common one.\n\n",
              options_table(catalog.gradient()))};
}

Page bytes_page(const Catalog& catalog) {
  Rows rows = {Words{"optimizer", "launches"} + codec_columns(catalog)};
  for (const std::string& name : catalog.names(Manifest::Kind::rule)) {
    const OptionValues options(name);
    rows.push_back(Words{link_to_rule(name), launches(options)} + state_bytes_cells(options, 2));
  }
  return {
      "reference/bytes.md",
      str_cat(kGenerated,
              "# State bytes per parameter\n\nFor a float32 matrix of 1024 x 1024 under "
              "default options, with one format chosen for all slots, as by `.state(\"int8\")`. "
              "Scales and auxiliary state are included. Launches are per step for all tensors "
              "that share a kernel: two for each pass of reductions, one for a host transform, one "
              "for the update.\n`jitstep memory` estimates a whole model, and `jitstep check FILE` "
              "prints these figures for your own file.\n\n",
              table(rows))};
}

std::vector<Page> all_pages() {
  const Catalog& catalog = default_catalog();
  std::vector<Page> pages = {optimizer_index(catalog), bytes_page(catalog), formats_page(catalog),
                             cli_page()};
  for (const std::string& name : catalog.names(Manifest::Kind::rule))
    pages.push_back(optimizer_page(catalog.rule(name), catalog));
  for (Page& page : pages) page.text.erase(page.text.find_last_not_of('\n') + 2);
  return pages;
}

}  // namespace jitstep::reference
