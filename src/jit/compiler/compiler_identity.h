// The identity of a host compiler: the text that decides which cached binaries fit.
#pragma once

#include <string>

namespace jitstep::jit {

/// The lines of a compiler's identity, from its `-E -v` report, without paths: version and target; `isa:` with the ISA
/// flags of -march; `arrived:` with other options that reach the compiler proper (cc1plus, clang -cc1).
std::string resolved_identity(const std::string& report);

/// An option in an identity that changes floating-point results. Empty if there is none.
std::string loose_arithmetic(const std::string& identity);

/// The processor in the options of an identity. Empty if there is none.
std::string cpu_in(const std::string& identity);

}  // namespace jitstep::jit
