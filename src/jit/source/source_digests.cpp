#include "jit/source/source_digests.h"

#include "jit/base/digest.h"
#include "jit/source/canonical_text.h"

namespace jitstep::jit {

std::string code_digest(std::string_view text) { return sha256_hex(canonical_text(text)); }

Sources sources_of(const std::string& translation_unit, const Texts& included) {
  Sources sources = {{kUnitSource, code_digest(translation_unit)}};
  for (const auto& [name, content] : included) sources[name] = code_digest(content);
  return sources;
}

Sources current_sources(const Sources& then, const TemplateStore& store) {
  Sources now = then;
  for (auto& [name, digest] : now) {
    if (const auto content = store.find(name)) digest = code_digest(*content);
  }
  return now;
}

std::vector<std::string> unknown_sources(const Sources& sources, const TemplateStore& store) {
  std::vector<std::string> unknown;
  for (const auto& [name, digest] : sources) {
    if (name != kUnitSource && !store.find(name)) unknown.push_back(name);
  }
  return unknown;
}

}  // namespace jitstep::jit
