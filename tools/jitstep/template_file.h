// A file of the user's that declares a rule or a codec.
#pragma once

#include <jitstep/jit/catalog.h>

#include <string>

namespace jitstep::tool {

/// Whether a word of the command line is meant as a file rather than as a name.
bool is_file(const std::string& word);

/// Adds a file that declares a rule or a codec, as its namespace says. An Error with file and line if it is neither, or
/// cannot be read.
const jit::Manifest& load_file(const std::string& path,
                               jit::Catalog& catalog = jit::default_catalog());

}  // namespace jitstep::tool
