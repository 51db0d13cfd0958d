// Names under which archives keep what a file declares. Internal to the manifest reader.
#pragma once

#include <string>
#include <vector>

#include "jit/manifest/manifest_cursor.h"
#include "jit/manifest/reserved_names.h"

namespace jitstep::jit {

/// An Error for a name that could not be read back.
void refuse_in_archives(const std::string& name, const Place& location);

/// What is kept is found by its own name and by torch's: an Error if one of them means another part than the last, which
/// is new, or can be no name in archives.
template <class T>
void check_archived(const std::vector<T>& all, const Place& location) {
  const T& made = all.back();
  if (const auto problem = name_problem(made.torch_name); !problem.empty())
    location.fail("`" + made.torch_name + "` " + problem + "; rename it");
  refuse_in_archives(made.torch_name, location);
  for (const T& other : all)
    for (const std::string& name : {other.name, other.torch_name})
      if (&other != &made && (name == made.name || name == made.torch_name))
        location.fail("`" + name + "` names `" + other.name + "` and `" + made.name +
                      "`, which archives could not tell apart; rename one");
}

}  // namespace jitstep::jit
