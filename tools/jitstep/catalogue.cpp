// jitstep catalogue: every rule, codec and weight format with what it declares and keeps, and what is
// refused, as one page.
#include <iostream>

#include "catalogue/pages.h"
#include "command.h"

namespace jitstep::tool {
namespace {

const char* const kHead =
    "# Catalogue\n\n"
    "What ships, as the files of `templates/` declare it: written by `jitstep catalogue > "
    "docs/catalogue.md`, not by hand.\n\n"
    "Bytes are those that the state takes per parameter, of a float32 matrix of 1024 x 1024 under "
    "default options, with that\n"
    "codec chosen for all slots (`.state(\"int8\")`); `jitstep check FILE` says the same of a file "
    "of yours, kernel by kernel. Launches\n"
    "are those of one step of all tensors that share a kernel: two for each pass of sums, one for "
    "a "
    "host stage, one that updates.\n\n";

std::string page() {
  const jit::Catalog& catalog = jit::default_catalog();
  return kHead + catalogue::index(catalog) + catalogue::common_options(catalog) +
         catalogue::formats(catalog) + catalogue::refusals(catalog) + catalogue::rules(catalog);
}

}  // namespace

void add_catalogue_command(CLI::App& app, int& status) {
  app.add_subcommand("catalogue",
                     "Prints every rule, codec and weight format with its options and what it "
                     "keeps, and what is refused, as Markdown")
      ->callback([&status] {
        std::cout << page();
        status = 0;
      });
}

}  // namespace jitstep::tool
