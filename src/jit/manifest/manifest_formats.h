// What the file of a codec or of a weight format says of how it is stored. Internal to the manifest reader.
#pragma once

#include "jit/manifest/manifest_lines.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

/// Reads the codes of a codec, the fields of its Meta and whether it rounds stochastically. Its options are read.
void read_codec(const SourceLines& lines, Manifest& made);

/// Reads what a weight format keeps beside the parameters, and whether it rounds stochastically.
void read_weights(const SourceLines& lines, Manifest& made);

}  // namespace jitstep::jit
