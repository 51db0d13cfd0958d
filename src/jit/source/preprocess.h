// Expands a translation unit and its templates into one self-contained source.
#pragma once

#include <string>
#include <string_view>

#include "jit/source/template_data.h"
#include "jitstep/jit/template_store.h"

namespace jitstep::jit {

/// The name of a text in markers and messages: "rules/mine.cuh" for its version "rules/mine.cuh@2".
std::string_view without_revision(std::string_view name);

/// Expands every `#include "..."` once, in place. It looks up names relative to the including file, then from the root
/// of the store. It removes `#pragma once` and adds `#line N "name"` markers. Includes in angle brackets stay. A
/// missing file, a cycle or an include inside #if throws an Error with file and line, because it does not evaluate
/// conditions. Includes of a stored file are the texts from when it was loaded.
std::string preprocess(std::string_view translation_unit, const std::string& unit_name,
                       const TemplateStore& store);
/// The same. `included` becomes the texts of all included files.
std::string preprocess(std::string_view translation_unit, const std::string& unit_name,
                       const TemplateStore& store, Texts& included);

/// All texts that `content` includes, each in its newest version.
Texts newest_includes(std::string_view content, const std::string& name,
                      const TemplateStore& store);

}  // namespace jitstep::jit
