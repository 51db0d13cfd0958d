// A user's file that declares a rule or a codec.
#pragma once

#include <jitstep/jit/catalog.h>

#include <string>

namespace jitstep::tool {

/// Whether an argument is a path: it has a slash or ends in ".cuh". Else it is a name.
bool is_file(const std::string& name);

/// Loads a file into the catalog. Its namespace tells whether it is a rule or a codec. Throws an Error with file and
/// line if it is neither, or cannot be read.
const jit::Manifest& load_file(const std::string& path,
                               jit::Catalog& catalog = jit::default_catalog());

}  // namespace jitstep::tool
