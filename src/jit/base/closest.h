// "Did you mean": the known name that is closest to a misspelled one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jit/base/text.h"
#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// The candidate with the smallest edit distance to `name`, the first of several. Empty if every distance is above a
/// third of the name's length and above 1, or if nothing matches. An edit inserts, deletes or replaces a letter, or
/// swaps two adjacent ones. Case is ignored.
JITSTEP_API std::string closest(std::string_view name, const std::vector<std::string>& candidates);

/// ` (did you mean "adamw"?)`, for error messages. Empty if no candidate is close.
inline std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string found = closest(name, candidates);
  return found.empty() ? "" : str_cat(" (did you mean \"", found, "\"?)");
}

}  // namespace jitstep::jit
