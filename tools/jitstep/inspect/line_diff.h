// The difference of two texts, line by line.
#pragma once

#include <string>

namespace jitstep::tool::inspect {

/// The hunks that `diff -u` prints, with three lines of context. "@@" lines have the line numbers, but no line counts.
/// Empty if the texts are equal.
std::string line_diff(const std::string& before, const std::string& after);

}  // namespace jitstep::tool::inspect
