// Text tables with aligned columns, and formatted numbers for them.
#pragma once

#include <string>
#include <vector>

#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// Lines of the rows' cells, with two spaces between columns. The first row is the header. Columns in `right` (from 0)
/// are right-aligned, all others left-aligned. Rows may be shorter than the header.
JITSTEP_API std::string text_table(const std::vector<std::vector<std::string>>& rows,
                                   const std::vector<std::size_t>& right = {});

/// With this many digits after the decimal point.
JITSTEP_API std::string fixed(double value, int digits);

}  // namespace jitstep::jit
