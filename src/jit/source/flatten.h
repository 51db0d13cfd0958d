// One self-contained text from a unit and the templates it includes, and the way back from the
// lines a compiler names to the files they came from.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "jitstep/jit/template_store.h"

namespace jitstep::jit {

/// Expands every `#include "..."` once, in place, looked up beside its includer and then from the
/// root of the store; `#pragma once` goes, `#line N "name"` markers keep file and line. Includes in
/// angle brackets stay as they are. A missing file or a cycle is an Error with file and line.
/// Note: conditions are not evaluated, so an include must not stand inside #if.
std::string flatten(std::string_view unit_text, const std::string& unit_name,
                    const TemplateStore& store);

/// The files that a flattened text holds: name -> line number -> line.
using Files = std::map<std::string, std::map<int, std::string>>;
Files files_of(std::string_view flat);

/// A line of a file.
struct SourcePlace {
  std::string file;
  int line = 0;
  auto operator<=>(const SourcePlace&) const = default;
};

/// The places in these files that a compiler log names, in the order of first mention. Only names of
/// files count, so no grammar of log lines is needed.
std::vector<SourcePlace> places_of(const Files& files, std::string_view log);

/// The sorted names of the unit and the templates that a flattened text holds.
std::vector<std::string> file_names(std::string_view flat);

/// The text with a line number in front of each line.
std::string numbered(std::string_view content);

/// The whole numbered text of every file that the compiler log names, in the order of first
/// mention. `flat` is the text that was compiled.
std::string numbered_sources(std::string_view flat, std::string_view log);

/// A few numbered lines around the first places that the compiler log names.
std::string excerpt(std::string_view flat, std::string_view log);

}  // namespace jitstep::jit
