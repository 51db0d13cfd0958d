// CLI11's own check names the range of a double.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace jitstep::tool {

/// Of an option whose number may be 0 or more.
inline CLI::Validator not_negative() {
  return CLI::Validator(
      [](std::string& word) {
        return word.starts_with('-') ? word + " is less than 0" : std::string();
      },
      "NONNEGATIVE");
}

}  // namespace jitstep::tool
