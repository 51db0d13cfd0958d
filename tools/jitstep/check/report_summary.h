// Problems and warnings of a report, grouped. The text and the JSON share them.
#pragma once

#include <string>
#include <vector>

#include "report.h"

namespace jitstep::tool::check {

/// The first problem or warning of a group, and the kernels that have one of this group. No kernels: it is about the
/// file.
struct Finding {
  Problem first;
  std::vector<std::string> kernels;
};

std::vector<Finding> problems_of(const Report& report);
std::vector<Finding> warnings_of(const Report& report);

}  // namespace jitstep::tool::check
