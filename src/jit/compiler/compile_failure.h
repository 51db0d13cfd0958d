// Why a host compiler gave no binary: the text's fault, the machine's, or the time's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "jit/base/process.h"
#include "jitstep/jit/target.h"

namespace jitstep::jit {

/// Throws a CompileError where the text is wrong, and an Error that says what to do where the machine lacks something.
/// `folder`: where the compiler worked.
[[noreturn]] void refuse_failed(const std::string& source, const std::string& name,
                                const Target& target, const Finished& run,
                                const std::string& folder);

/// Throws the Error of a compiler that was stopped after so many seconds.
[[noreturn]] void refuse_stopped(const std::vector<std::string>& words, std::int64_t seconds,
                                 const Finished& run);

}  // namespace jitstep::jit
