// Digests of the texts a kernel is made of, by which a later reader tells what has changed.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "jitstep/jit/template_store.h"

namespace jitstep::jit {

/// Digests by file name; the unit's own is under kUnitSource.
using Sources = std::map<std::string, std::string>;
inline constexpr char kUnitSource[] = "(unit)";

/// The digest of a text's code: comments, formatting and line markers do not count.
std::string code_digest(std::string_view text);

/// The digests of a unit's own text and of the templates it includes.
Sources sources_of(const std::string& translation_unit, const Texts& included);

/// The same files with the digests they have in `store`. One that is not there keeps its digest: it may
/// be one that a program loads at run time, of which nothing is known here.
Sources sources_of_today(const Sources& then, const TemplateStore& store);

/// The files that are not in `store`.
std::vector<std::string> unknown_sources(const Sources& sources, const TemplateStore& store);

}  // namespace jitstep::jit
