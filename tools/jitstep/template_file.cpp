#include "template_file.h"

#include <jit/base/private_files.h>
#include <jit/base/text.h>
#include <jit/manifest/manifest_lines.h>
#include <jitstep/jit/error.h>
#include "jit/codegen/spec_text.h"
#include "usage.h"

#include <filesystem>
#include <nlohmann/json.hpp>

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;
using nlohmann::json;

struct Namespaces {
  std::string rule, codec;
};

// The namespaces that a rule or codec in this file may have.
Namespaces namespaces_of(const std::string& path) {
  const std::string stem = std::filesystem::path(path).stem().string();
  return {"jitstep::rules::" + stem, "jitstep::codecs::" + stem};
}

[[noreturn]] void reject(const Location& location, const std::string& path,
                         const std::string& found) {
  const auto [rule, codec] = namespaces_of(path);
  location.fail(str_cat("expected `namespace ", rule, " {` of a rule, or `namespace ", codec,
                        " {` of a codec, but found ", found));
}

// In a file that is not a template, an error about its first invalid character would not help. It gets an error about
// the missing namespace instead.
SourceLines cut(const std::string& content, const std::string& path) {
  try {
    return cut_source(content, path, {});
  } catch (const Error&) {
    const auto [rule, codec] = namespaces_of(path);
    if (content.find(rule) != content.npos || content.find(codec) != content.npos) throw;
    reject({path, 1}, path, "neither");
  }
}

Manifest::Kind kind_of_file(const std::string& path) {
  const std::string content = read_code_file(path);
  const SourceLines lines = cut(content, path);
  if (!lines.enclosing) reject({path, 1}, path, "neither");
  const std::string space = lines.enclosing->code;
  if (space.starts_with("jitstep::rules::")) return Manifest::Kind::rule;
  if (space.starts_with("jitstep::codecs::")) return Manifest::Kind::codec;
  reject(lines.enclosing->location, path, "`" + space + "`");
}

}  // namespace

bool is_path(const std::string& name) {
  return name.find('/') != name.npos || name.ends_with(".cuh");
}

const Manifest& load_file(const std::string& path, Catalog& catalog) {
  return kind_of_file(path) == Manifest::Kind::rule ? catalog.load_rule(path)
                                                    : catalog.load_codec(path);
}

const Manifest& load_shared_rule(const std::string& path) {
  return default_catalog().load_rule(path);
}

const Manifest& load_shared_codec(const std::string& path) {
  return default_catalog().load_codec(path);
}

bool load_named(json& name, const FileLoader& load) {
  if (!name.is_string() || !is_path(name.get<std::string>())) return false;
  name = load(name.get<std::string>()).name;
  return true;
}

bool load_codec(json& codec, const FileLoader& load) {
  return load_named(codec.is_object() && codec.contains("codec") ? codec["codec"] : codec, load);
}

// Invalid JSON stays as it is, so that parse_codec() reports its error.
CodecChoice codec_choice(const std::string& text, const FileLoader& load) {
  const bool is_json = text.find('{') != text.npos;
  json codec = is_json ? json::parse(text, nullptr, false) : json(text);
  const bool loaded = load_codec(codec, load);
  return as_usage([&] {
    if (!loaded) return parse_codec(text);
    return parse_codec(codec.is_string() ? codec.get<std::string>() : codec.dump());
  });
}

}  // namespace jitstep::tool
