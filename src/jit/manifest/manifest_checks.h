// Checks of what a file declares against what it declared before. Each throws at the location of the declaration.
#pragma once

#include <string>
#include <string_view>

#include "jit/manifest/manifest_cursor.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

/// Elements have members of other meanings with some names. what: "slot", "input", ...
void check_member(const std::string& name, std::string_view what, const Location& location);

/// A member of elements has no transform's name.
void check_no_transform(const Manifest& manifest, const std::string& name,
                        const Location& location);

/// The last field of auxiliary state has a writer: a reduction over the same domain or, for a rule's fields per tensor
/// and its shared state, `prepare`. If elements read it, its name is free.
void check_aux_state(const Manifest& manifest, const Location& location);

/// An initial value names a number or, if `list`, a list among the options.
void check_initial(const Manifest& manifest, const Initial& initial, bool list,
                   const Location& location);

}  // namespace jitstep::jit
