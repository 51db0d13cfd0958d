// The way back from what a compiler says to the files that its text was made of.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace jitstep::jit {

/// The files that a flattened text holds: name -> line number -> line.
using Files = std::map<std::string, std::map<int, std::string>>;
Files files_of(std::string_view preprocessed);

/// A line of a file.
struct SourceLocation {
  std::string file;
  int line = 0;
  auto operator<=>(const SourceLocation&) const = default;
};

/// The places in these files that a compiler log names, in the order of first mention. Only names of
/// files count, so no grammar of log lines is needed.
std::vector<SourceLocation> locations_of(const Files& files, std::string_view log);

/// The sorted names of the unit and the templates that a flattened text holds.
std::vector<std::string> file_names(std::string_view preprocessed);

/// The text with a line number in front of each line.
std::string numbered(std::string_view content);

/// The whole numbered text of every file that the compiler log names, in the order of first
/// mention. `flat` is the text that was compiled.
std::string numbered_sources(std::string_view preprocessed, std::string_view log);

/// A few numbered lines around the first places that the compiler log names.
std::string excerpt(std::string_view preprocessed, std::string_view log);

/// Names of templates and what they are shown as: the user's own paths.
using ShownNames = std::map<std::string, std::string>;

/// A log or message in which the files are called by what they are shown as.
std::string with_shown_names(std::string message, const ShownNames& names);

}  // namespace jitstep::jit
