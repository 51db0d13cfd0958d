// Names of declarations in checkpoints and in conditions. Internal to the manifest reader.
#pragma once

#include <string>
#include <vector>

#include "jit/manifest/expression.h"
#include "jit/manifest/manifest_cursor.h"
#include "jit/manifest/reserved_names.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

/// Throws an Error for a name that torch could not load from a checkpoint.
void refuse_in_archives(const std::string& name, const Location& location);

/// Throws an Error if one of the names of a rule's state is an entry of every parameter's state.
void refuse_entries(const std::string& own_name, const std::string& torch_name,
                    const Location& location);

/// Why a condition cannot use this name, and what to write instead: it is unknown, a size of the parameter, no flag, or
/// declared below the condition.
std::string unknown_name(const std::string& name, const Symbols& symbols);

/// Throws an Error if checkpoints cannot tell `declared`, which the manifest has, from other state. They find state by
/// its own name and by torch's name, and each parameter's state has entries of jitstep.
template <class T>
void check_archived(const Manifest& manifest, const T& declared, const Location& location) {
  if (const auto problem = name_problem(declared.torch_name); !problem.empty())
    location.fail("`" + declared.torch_name + "` " + problem + ". Rename it.");
  refuse_in_archives(declared.torch_name, location);
  if (manifest.kind == Manifest::Kind::rule)
    refuse_entries(declared.name, declared.torch_name, location);
  const auto compare = [&](const auto& all) {
    for (const auto& other : all)
      for (const std::string& name : {other.name, other.torch_name})
        if (static_cast<const void*>(&other) != &declared &&
            (name == declared.name || name == declared.torch_name))
          location.fail("`" + name + "` names both `" + other.name + "` and `" + declared.name +
                        "`, so that checkpoints cannot tell them apart. Rename one.");
  };
  compare(manifest.slots);
  compare(manifest.aux_state);
  compare(manifest.matrices);
}

}  // namespace jitstep::jit
