// Reads the storage declarations of codecs and weight formats. Internal to the manifest reader.
#pragma once

#include "jit/manifest/manifest_lines.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

/// Reads a codec's code type, the fields of its Meta, and whether it rounds stochastically. Its options must have been
/// read before.
void read_codec(const SourceLines& lines, Manifest& manifest);

/// Reads a weight format's residual type, and whether it rounds stochastically.
void read_weights(const SourceLines& lines, Manifest& manifest);

}  // namespace jitstep::jit
