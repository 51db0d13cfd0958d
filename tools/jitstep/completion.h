// What a shell offers for the word at the cursor.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace jitstep::tool {

/// The flag by which completion scripts ask, as the first argument: `jitstep --complete WORD...`.
inline constexpr const char* kComplete = "--complete";

/// Candidates for the last of these words, which may be empty: commands, flags, or the values of a flag. None where a
/// file can stand. Candidates need not begin with the word.
std::vector<std::string> completions(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace jitstep::tool
