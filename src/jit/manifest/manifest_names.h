// Names of declarations in checkpoints and in conditions. Internal to the manifest reader.
#pragma once

#include <string>
#include <vector>

#include "jit/manifest/expression.h"
#include "jit/manifest/manifest_cursor.h"
#include "jit/manifest/reserved_names.h"

namespace jitstep::jit {

/// Throws an Error for a name that torch could not load from a checkpoint.
void refuse_in_archives(const std::string& name, const Location& location);

/// Why a condition cannot use this name, and what to write instead: it is unknown, a size of the parameter, or declared
/// below the condition.
std::string unknown_name(const std::string& name, const Symbols& symbols);

/// Checks the last, new declaration. Checkpoints find state by its own name and by torch's name. Throws an Error if one
/// of the two also names another declaration, or cannot be a name in a checkpoint.
template <class T>
void check_archived(const std::vector<T>& all, const Location& location) {
  const T& made = all.back();
  if (const auto problem = name_problem(made.torch_name); !problem.empty())
    location.fail("`" + made.torch_name + "` " + problem + ". Rename it.");
  refuse_in_archives(made.torch_name, location);
  for (const T& other : all)
    for (const std::string& name : {other.name, other.torch_name})
      if (&other != &made && (name == made.name || name == made.torch_name))
        location.fail("`" + name + "` names both `" + other.name + "` and `" + made.name +
                      "`, so that checkpoints cannot tell them apart. Rename one.");
}

}  // namespace jitstep::jit
