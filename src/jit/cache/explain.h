// Explains a cache miss: how the requested kernel differs from cached ones.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "jit/cache/cache_entry.h"
#include "jitstep/jit/template_store.h"

namespace jitstep::jit {

/// Why a binary of the compiler with this identity must not be used. Empty if it may be used.
using WhyUnusable = std::function<std::string(const std::string& compiler)>;

/// One phrase per field that differs, such as "rules/adamw.cuh has changed" or "it is for sm_80, not sm_90". Empty
/// exactly if the keys are equal. With `why_unusable` instead of a comparison of compilers, empty means that the entry
/// may be used.
std::vector<std::string> differences(const EntryHeader& entry, const EntryHeader& wanted,
                                     const WhyUnusable& why_unusable = {});

/// The most similar entry with the wanted name and kind of target, and its differences, as a part of a sentence. If
/// there is none, says so.
std::string explain_miss(const EntryHeader& wanted, const std::vector<EntryHeader>& entries,
                         const WhyUnusable& why_unusable = {});

/// The header that the entry's kernel would have now: the same translation unit, with the templates in `store` (see
/// current_sources) and this compiler identity. The text digest is unchanged if no template has changed, else empty.
EntryHeader renewed(const EntryHeader& entry, const TemplateStore& store,
                    const std::string& compiler);

}  // namespace jitstep::jit
