// A range check for numbers on the command line. CLI11's own check prints the bounds of the integer type.
#pragma once

#include <jit/base/text.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>

namespace jitstep::tool {

/// Accepts whole numbers from `low` to `high`.
inline CLI::Validator in_range(std::int64_t low,
                               std::int64_t high = std::numeric_limits<std::int64_t>::max()) {
  return CLI::Validator(
      [low, high](const std::string& text) {
        std::int64_t number = 0;
        const char* const end = text.data() + text.size();
        const auto [rest, failure] = std::from_chars(text.data(), end, number);
        if (failure == std::errc() && rest == end && number >= low && number <= high)
          return std::string();
        const bool bounded = high < std::numeric_limits<std::int64_t>::max();
        return jit::str_cat(
            '"', text, "\" is not a whole number ",
            bounded ? jit::str_cat("from ", low, " to ", high) : jit::str_cat(">= ", low));
      },
      "");
}

/// Refuses an empty text, such as that of an unset variable of a shell.
inline CLI::Validator not_empty(const char* advice = "Give one, or leave the option out") {
  return CLI::Validator(
      [advice](const std::string& text) {
        return text.empty() ? jit::str_cat("the value is empty. ", advice) : std::string();
      },
      "");
}
/// The same for an argument that is required.
inline CLI::Validator not_empty_argument() { return not_empty("Give a name or path"); }

}  // namespace jitstep::tool
