// Maps locations in compiler logs to the files that a source was made of.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace jitstep::jit {

/// The files in a preprocessed source: name -> line number -> line.
using Files = std::map<std::string, std::map<int, std::string>>;
Files files_of(std::string_view preprocessed);

/// A file name and a line number.
struct SourceLocation {
  std::string file;
  int line = 0;
  auto operator<=>(const SourceLocation&) const = default;
};

/// The locations in these files that a compiler log names, in order of first mention. It searches for file names only,
/// so it needs no grammar of log lines.
std::vector<SourceLocation> locations_of(const Files& files, std::string_view log);

/// The sorted names of the translation unit and the templates in a preprocessed source.
std::vector<std::string> file_names(std::string_view preprocessed);

/// The text with line numbers.
std::string numbered(std::string_view content);

/// The complete text, with line numbers, of every file that the compiler log names, in order of first mention.
std::string numbered_sources(std::string_view preprocessed, std::string_view log);

/// A few lines around the first locations that the compiler log names.
std::string excerpt(std::string_view preprocessed, std::string_view log);

/// Template names and the user's paths to show instead.
using ShownNames = std::map<std::string, std::string>;

/// Replaces template names in a log or message by the paths to show.
std::string with_shown_names(std::string message, const ShownNames& names);

}  // namespace jitstep::jit
