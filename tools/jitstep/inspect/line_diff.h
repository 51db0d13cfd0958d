// How two texts differ, line by line.
#pragma once

#include <string>

namespace jitstep::tool::inspect {

/// The lines of both, those of `before` alone behind "-", those of `after` alone behind "+", with three equal ones around
/// and "@@" with the lines' numbers between: what `diff -u` prints. Empty if they are equal.
std::string line_diff(const std::string& before, const std::string& after);

}  // namespace jitstep::tool::inspect
