// Completion candidates for the word at the cursor of a shell.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace jitstep::tool {

/// The first argument when a completion script calls the tool: `jitstep --complete WORD...`.
inline constexpr const char* kComplete = "--complete";

/// Candidates for the last of these words: commands, flags, or the values of a flag. The last word may be empty.
/// Returns none where a file name is expected. The candidates are not filtered by the beginning of the word.
std::vector<std::string> completions(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace jitstep::tool
