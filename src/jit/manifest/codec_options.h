// The options of a codec, wherever some of them are given: in a rule's file, by a user, in an archive.
#pragma once

#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

/// All options of a codec: what is given, else what the rule's file says of this codec, else its own defaults. A number
/// may be given by the name of one of the rule's, which it then follows; without a rule (null) any name will do. An
/// Error names what is wrong.
NamedValues codec_options(const Manifest& codec, const NamedValues& given, const Manifest* rule);

}  // namespace jitstep::jit
