// What texts and JSON say of a report alike.
#pragma once

#include <string>
#include <vector>

#include "report.h"

namespace jitstep::tool::check {

/// A problem or a warning with the kernels that have one of its group; none: it is the file's.
struct Finding {
  Problem first;
  std::vector<std::string> kernels;
};

std::vector<Finding> problems_of(const Report& report);
std::vector<Finding> warnings_of(const Report& report);

}  // namespace jitstep::tool::check
