#include "key_report.h"

#include <jit/base/text.h>
#include <jit/base/text_table.h>
#include <jit/cache/disk_cache.h>
#include <jit/source/preprocess.h>
#include <jit/source/source_digests.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../compilers.h"
#include "jit/source/template_data.h"

namespace jitstep::tool::inspect {
namespace {

using namespace jitstep::jit;

constexpr char kNotInIt[] =
    "Not in the key, so a change compiles nothing: lr and all other numbers of the options, t, "
    "seed,\nand sizes and number of tensors, which are arguments of the kernel. Paths, the driver "
    "version\nand the GPU model within the architecture are not in the key either.\n";

std::string cut(const std::string& digest) { return digest.substr(0, 12); }

void add_flags(const NamedValues& flags, const char* what, std::vector<KeyPart>& parts) {
  for (const auto& [name, value] : flags)
    parts.push_back(
        {str_cat(what, " ", name), to_string(value), "a flag is a constant in the kernel"});
}

// The constants in the translation unit.
std::vector<KeyPart> constants_of(const Subject& subject) {
  const Plan& plan = subject.plan;
  const KernelSpec& spec = plan.spec;
  std::vector<KeyPart> parts = {{"rule", spec.rule, "its formulas are compiled in"}};
  add_flags(spec.flags, "flag", parts);
  add_flags(spec.gradient_flags, "common flag", parts);
  for (std::size_t i = 0; i < spec.state.slots.size(); ++i)
    if (spec.state.slots[i])
      parts.push_back({"state " + plan.rule().slots[i].name, to_string(*spec.state.slots[i]),
                       "its encoding is compiled in"});
  parts.insert(parts.end(),
               {{"weights", spec.state.weights, "its encoding is compiled in"},
                {"parameter", to_string(spec.state.dtype), "types are compiled in"},
                {"gradient", to_string(spec.gradient), "types are compiled in"},
                {"strided", spec.strided ? "true" : "false", "dense tensors need no strides"},
                {"configuration", to_string(subject.config),
                 "loops are compiled for it (results do not depend on it)"}});
  return parts;
}

std::string role_of(const std::string& name) {
  if (name.starts_with("rules/")) return "rule";
  if (name.starts_with("codecs/support/")) return "shared by codecs";
  if (name.starts_with("codecs/")) return "codec of a slot";
  if (name.starts_with("weights/")) return "weight format";
  if (name.starts_with("kernel/")) return "loops around the rule";
  return "shared by templates";
}

std::vector<KeyPart> templates_of(const Subject& subject) {
  Texts included;
  preprocess(subject.unit.text, subject.unit.name, default_engine().templates(), included);
  std::vector<KeyPart> parts;
  for (const auto& [name, digest] : sources_of(subject.unit.text, included))
    if (name != kUnitSource) parts.push_back({name, cut(digest), role_of(name)});
  return parts;
}

// Adds the lines of a compiler's identity: its version, the instruction set of -march=native (isa), its options, and
// the options after the compiler resolved them (arrived).
void add_compiler(const std::string& identity, std::vector<KeyPart>& parts) {
  std::istringstream lines(identity);
  for (std::string line; std::getline(lines, line);) {
    const bool isa = line.starts_with("isa:");
    const bool options = line.starts_with("options:") || line.starts_with("arrived:");
    if (!line.empty())
      parts.push_back({"compiler", line,
                       isa       ? "instruction set of this machine"
                       : options ? "options change the code"
                                 : "another version or build generates other code"});
  }
}

std::string where(const std::string& key) {
  for (const ListedEntry& entry : DiskCache(Settings::from_environment()).list(true))
    if (entry.problem.empty() && std::filesystem::path(entry.file.path).stem() == key)
      return (entry.readonly ? "in the read-only cache: " : "in the cache: ") + entry.file.path;
  return "not in the cache";
}

std::vector<std::vector<std::string>> rows_of(const std::vector<KeyPart>& parts,
                                              const std::string& indent) {
  std::vector<std::vector<std::string>> rows;
  for (const KeyPart& part : parts) rows.push_back({indent + part.part, part.because, part.value});
  return rows;
}

nlohmann::json json_of(const std::vector<KeyPart>& parts) {
  nlohmann::json all = nlohmann::json::array();
  for (const KeyPart& one : parts)
    all.push_back({{"part", one.part}, {"value", one.value}, {"because", one.because}});
  return all;
}

}  // namespace

KeyReport key_report(const Subject& subject) {
  const Key key{code_digest(subject.preprocessed), subject.target,
                compiler_identity(subject.target)};
  KeyReport report;
  report.key = key.digest();
  report.found = where(report.key);
  report.parts = {{"schema", str_cat(kCacheSchema), "version of the format of cache files"},
                  {"text", cut(key.token_digest), "digest of the preprocessed source, see below"},
                  {"target", to_string(key.target), "a binary runs on one architecture"}};
  add_compiler(key.compiler, report.parts);
  if (subject.edited) {
    report.constants = {{"edited text", cut(key.token_digest), "given by --override"}};
  } else {
    report.constants = constants_of(subject);
    report.templates = templates_of(subject);
  }
  return report;
}

std::string to_text(const KeyReport& report) {
  std::vector<std::vector<std::string>> rows = {{"part", "because", "value"}};
  const auto add = [&](const std::vector<KeyPart>& parts, const char* indent) {
    for (auto& row : rows_of(parts, indent)) rows.push_back(std::move(row));
  };
  add(report.parts, "");
  rows.push_back({"in the text: translation unit"});
  add(report.constants, "  ");
  if (!report.templates.empty()) rows.push_back({"in the text: templates"});
  add(report.templates, "  ");
  return str_cat("key ", report.key, "\n", report.found, "\n\n", text_table(rows), "\n", kNotInIt);
}

nlohmann::json to_json(const KeyReport& report) {
  return {{"key", report.key},
          {"found", report.found},
          {"parts", json_of(report.parts)},
          {"constants", json_of(report.constants)},
          {"templates", json_of(report.templates)}};
}

}  // namespace jitstep::tool::inspect
