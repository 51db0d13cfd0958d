// One self-contained text from a unit and the templates it includes.
#pragma once

#include <string>
#include <string_view>

#include "jitstep/jit/template_store.h"

namespace jitstep::jit {

/// What a text is called in markers and messages: "rules/mine.cuh" for its version "rules/mine.cuh@2".
std::string_view without_version(std::string_view name);

/// Expands every `#include "..."` once, in place, looked up beside its includer and then from the
/// root of the store; `#pragma once` goes, `#line N "name"` markers keep file and line. Includes in
/// angle brackets stay as they are. A missing file or a cycle is an Error with file and line.
/// Inside a file that the store keeps, includes are what they were when it was loaded.
/// Note: conditions are not evaluated, so an include must not stand inside #if.
std::string preprocess(std::string_view translation_unit, const std::string& unit_name,
                       const TemplateStore& store);
/// The same, with the texts of all that was included.
std::string preprocess(std::string_view translation_unit, const std::string& unit_name,
                       const TemplateStore& store, Texts& included);

/// All that a text includes, each the newest of its name.
Texts newest_includes(std::string_view content, const std::string& name,
                      const TemplateStore& store);

}  // namespace jitstep::jit
