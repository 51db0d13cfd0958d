// Parts of error messages about code in the kernel language, which the manifest reader and the compiler's diagnosis
// share.
#pragma once

#include <string>
#include <string_view>

#include "jit/base/text.h"

namespace jitstep::jit {

/// Where the names are that a template can use.
inline constexpr std::string_view kWhereNamesAre =
    "in docs/extending/reference.md, the kernel language reference, under Functions and types.";

/// The message for a name that only some targets have.
inline std::string not_portable(std::string_view name) {
  return str_cat("`", name, "` is specific to one compiler and differs between targets. ",
                 "See the names that you can use ", kWhereNamesAre);
}

}  // namespace jitstep::jit
