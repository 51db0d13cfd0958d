// Checks of what a file declares against what it declared before. Each throws at the location of the declaration.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jit/manifest/manifest_cursor.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

/// Elements have members of other meanings with some names. what: "slot", "input", ...
void check_member(const std::string& name, std::string_view what, const Location& location);

/// A member of elements has no transform's name.
void check_no_transform(const Manifest& manifest, const std::string& name,
                        const Location& location);

/// In C++, a member of a structure must not have the name of a type that the structure uses.
template <class Field>
void check_domain_names(const std::vector<Field>& fields, const Location& location) {
  for (const Field& user : fields)
    for (const Field& field : fields)
      if (field.name == kDomainNames.at(static_cast<std::size_t>(user.domain.kind)))
        location.fail("`" + field.name + "` is a domain of this structure. Rename the field.");
}

/// The last reduction has a name of its own, and a codec's reduction a place for its result.
void check_reduction(const Manifest& manifest, const Location& location);

/// Programs set the learning rate by the name `lr`, as one number.
void check_learning_rate(const Option& option, const Location& location);

/// The note `at construction:` copies the value of `from`, which must be in the range.
void check_copied(const Option& option, const Option& from, const Location& location);

/// The context `c` has scalars and results of reductions by their names.
void check_scalars(const Manifest& manifest, const Location& location);

/// A NonNegative slot starts at an option that cannot be negative. Its name is not that of all slots in checkpoints.
void check_start(const Manifest& manifest, const Slot& slot, const Location& location);

/// The last field of auxiliary state has a writer: a reduction over the same domain or, for a rule's fields per tensor
/// and its shared state, `prepare`. If elements read it, its name is free.
void check_aux_state(const Manifest& manifest, const Location& location);

/// An initial value names a number or, if `list`, a list among the options.
void check_initial(const Manifest& manifest, const Initial& initial, bool list,
                   const Location& location);

}  // namespace jitstep::jit
