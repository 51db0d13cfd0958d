// The generated pages of the documentation. All but cli.md are made from the manifests alone.
#pragma once

#include <jitstep/jit/catalog.h>
#include <jitstep/jit/option_values.h>

#include <string>
#include <vector>

namespace jitstep::reference {

/// A page and its path below docs/.
struct Page {
  std::string path, text;
};

/// optimizers/NAME.md: one page per rule.
Page optimizer_page(const jit::Manifest& rule, const jit::Catalog& catalog);

/// optimizers/index.md: one table that compares all rules, and the common options.
Page optimizer_index(const jit::Catalog& catalog);

/// reference/bytes.md: one table of state bytes per parameter, by rule and state format.
Page bytes_page(const jit::Catalog& catalog);

/// reference/formats.md: state formats, weight formats, and which combinations exist. Tries all rules with all values of
/// their flags, formats and dtypes.
Page formats_page(const jit::Catalog& catalog);

/// reference/cli.md: every command with its flags, exit statuses and examples.
Page cli_page();

/// All of them.
std::vector<Page> all_pages();

/// The rows of a table of options, with a head.
std::string options_table(const jit::Manifest& manifest);

/// What the formats page says of combinations that do not exist.
std::string refusals(const jit::Catalog& catalog);

/// Bytes per parameter by codec, in the order of codec_columns(), with three digits.
std::vector<std::string> state_bytes_cells(const jit::OptionValues& options, int dims);

}  // namespace jitstep::reference
