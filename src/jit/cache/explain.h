// Why a kernel is not in the cache: how it differs from what is there, in words.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "jit/cache/cache_entry.h"
#include "jitstep/jit/template_store.h"

namespace jitstep::jit {

/// Why a binary of a compiler with some identity is not to be used; empty if it may.
using Misfit = std::function<std::string(const std::string& compiler)>;

/// Each field in which an entry is not what is wanted, as a phrase such as "rules/adamw.cuh has
/// changed" or "it is for sm_80, not sm_90". Empty exactly if the keys are equal; with `misfit`, which is asked in
/// the place of the wanted compiler, if the entry may be used.
std::vector<std::string> differences(const EntryHeader& entry, const EntryHeader& wanted,
                                     const Misfit& misfit = {});

/// One phrase or sentence part: the entry of the wanted name and kind of target that is nearest,
/// and its differences; or that there is none.
std::string explain_miss(const EntryHeader& wanted, const std::vector<EntryHeader>& entries,
                         const Misfit& misfit = {});

/// What the entry's kernel would be asked for with today: the same translation unit, with the templates in
/// `store` (see sources_of_today) and this identity of the compiler. Its text digest stays if no
/// template has changed and is empty otherwise.
EntryHeader renewed(const EntryHeader& entry, const TemplateStore& store,
                    const std::string& compiler);

}  // namespace jitstep::jit
