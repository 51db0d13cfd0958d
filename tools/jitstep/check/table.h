// Tables of words in aligned columns.
#pragma once

#include <string>
#include <vector>

namespace jitstep::tool::check {

/// Lines of the rows' words, the first row the head, two spaces between columns. Columns named in `right`
/// (from 0) end in line, the others begin in line. Rows may be shorter than the head.
std::string table(const std::vector<std::vector<std::string>>& rows,
                  const std::vector<std::size_t>& right = {});

}  // namespace jitstep::tool::check
