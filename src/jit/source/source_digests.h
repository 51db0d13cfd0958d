// Digests of a kernel's source files, so that a later process can report what has changed.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "jit/source/template_data.h"
#include "jitstep/jit/template_store.h"

namespace jitstep::jit {

/// Digests by file name. The digest of the translation unit is under kUnitSource.
using Sources = std::map<std::string, std::string>;
inline constexpr char kUnitSource[] = "(unit)";

/// The digest of a text's tokens. Comments, formatting and line markers do not change it.
std::string code_digest(std::string_view text);

/// The digests of a translation unit and of the templates it includes.
Sources sources_of(const std::string& translation_unit, const Texts& included);

/// The same files with their current digests in `store`. A file that is not in the store keeps its digest, because a
/// program may load it at run time.
Sources current_sources(const Sources& then, const TemplateStore& store);

/// The files that are not in `store`.
std::vector<std::string> unknown_sources(const Sources& sources, const TemplateStore& store);

}  // namespace jitstep::jit
