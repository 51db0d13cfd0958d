// Tables of words in aligned columns, and numbers for them.
#pragma once

#include <string>
#include <vector>

#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// Lines of the rows' words, the first row the head, two spaces between columns. Columns named in `right`
/// (from 0) end in line, the others begin in line. Rows may be shorter than the head.
JITSTEP_API std::string text_table(const std::vector<std::vector<std::string>>& rows,
                                   const std::vector<std::size_t>& right = {});

/// With so many digits behind the point.
JITSTEP_API std::string fixed(double value, int digits);

}  // namespace jitstep::jit
