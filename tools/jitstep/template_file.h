// A user's file that declares a rule or a codec.
#pragma once

#include <jitstep/jit/catalog.h>
#include <jitstep/jit/plan.h>

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace jitstep::tool {

/// Whether an argument is a path: it has a slash or ends in ".cuh". Else it is a name.
bool is_path(const std::string& name);

/// Loads a file into the catalog. Its namespace tells whether it is a rule or a codec. Throws an Error with file and
/// line if it is neither, or cannot be read.
const jit::Manifest& load_file(const std::string& path,
                               jit::Catalog& catalog = jit::default_catalog());

/// Loads the file of a rule or codec, and returns it.
using FileLoader = std::function<const jit::Manifest&(const std::string& path)>;

/// FileLoaders for the process-wide catalog.
const jit::Manifest& load_shared_rule(const std::string& path);
const jit::Manifest& load_shared_codec(const std::string& path);

/// If `name` is a path, loads the file and replaces the path by the name of the rule or codec. Returns whether it was a
/// path.
bool load_named(nlohmann::json& name, const FileLoader& load);

/// The same for a codec: its name, or an object whose "codec" is the name.
bool load_codec(nlohmann::json& codec, const FileLoader& load = load_shared_codec);

/// The codec of a flag: a name, a path, or JSON with one of them. Throws a UsageError if the text is invalid, and
/// another Error if a file cannot be loaded. An unknown name is not noticed.
jit::CodecChoice codec_choice(const std::string& text, const FileLoader& load = load_shared_codec);

}  // namespace jitstep::tool
