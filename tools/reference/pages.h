// The generated pages of the documentation. All except cli.md are generated from manifests only.
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

/// reference/formats.md: state formats, weight formats, and supported combinations. Tries all rules with all values of
/// their flags, formats and dtypes.
Page formats_page(const jit::Catalog& catalog);

/// reference/cli.md: every command with its flags, exit statuses and examples.
Page cli_page();

/// All generated pages.
std::vector<Page> all_pages();

/// A table of a manifest's options, with a header.
std::string options_table(const jit::Manifest& manifest);

/// The sections of the formats page about unsupported combinations.
std::string refusals(const jit::Catalog& catalog);

/// State bytes per parameter by codec, in the order of codec_columns(), with three decimals.
std::vector<std::string> state_bytes_cells(const jit::OptionValues& options, int dims);

}  // namespace jitstep::reference
