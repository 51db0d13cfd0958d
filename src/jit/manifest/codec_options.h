// Resolves the options of a codec. A rule's file, a user or a checkpoint may set some of them.
#pragma once

#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

/// All options of a codec. For each option, `given` comes first, then the rule's file, then the codec's default.
/// The value of a number may be the name of one of the rule's numbers, whose value it then has in each step. Without a
/// rule (null), any name is accepted. Throws an Error that names the invalid option.
NamedValues codec_options(const Manifest& codec, const NamedValues& given, const Manifest* rule);

}  // namespace jitstep::jit
