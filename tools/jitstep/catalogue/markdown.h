// Markdown, as far as the catalogue needs it.
#pragma once

#include <string>
#include <vector>

namespace jitstep::tool::catalogue {

/// The words of the cells, row by row, the first one the head.
using Rows = std::vector<std::vector<std::string>>;

/// A table with an empty line after it, or nothing if it has a head alone.
std::string table(const Rows& rows);

/// `words`; nothing for nothing.
std::string code(const std::string& words);

/// "[rule](#rule)", the place of its section.
std::string link_to_rule(const std::string& rule);

}  // namespace jitstep::tool::catalogue
