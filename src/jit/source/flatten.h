// One self-contained text from a unit and the templates it includes.
#pragma once

#include <string>
#include <string_view>

#include "jitstep/jit/template_store.h"

namespace jitstep::jit {

/// Expands every `#include "..."` once, in place, looked up beside its includer and then from the
/// root of the store; `#pragma once` goes, `#line N "name"` markers keep file and line. Includes in
/// angle brackets stay as they are. A missing file or a cycle is an Error with file and line.
/// Note: conditions are not evaluated, so an include must not stand inside #if.
std::string flatten(std::string_view unit_text, const std::string& unit_name,
                    const TemplateStore& store);

}  // namespace jitstep::jit
