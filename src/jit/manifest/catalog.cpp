#include "jitstep/jit/catalog.h"

#include <mutex>
#include <utility>

#include "jit/base/closest.h"
#include "jit/base/fork_guard.h"
#include "jit/base/lock_free_static.h"
#include "jit/base/private_files.h"
#include "jit/base/text.h"
#include "jit/manifest/codec_options.h"
#include "jit/manifest/manifest_lines.h"
#include "jit/manifest/manifest_reader.h"
#include "jit/manifest/option_layout.h"
#include "jit/manifest/reserved_names.h"
#include "jit/source/embedded_templates.h"
#include "jit/source/preprocess.h"
#include "jit/source/template_data.h"
#include "jitstep/jit/engine.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

using Kind = Manifest::Kind;

struct KindNames {
  Kind kind;
  std::string_view folder;  // "rules/"
  std::string_view one;     // "rule"
  std::string_view body;    // the struct with the functions
  std::string_view hint;
};

constexpr KindNames kKindNames[] = {
    {Kind::rule, "rules/", "rule", "Rule",
     "For your own file, call load_rule() in a program, or give the tool a path instead of the "
     "name (convert: --load FILE)"},
    {Kind::codec, "codecs/", "codec", "Codec",
     "For your own file, call load_codec() in a program, or give the tool a path instead of the "
     "name (convert: --load FILE)"},
    {Kind::weights, "weights/", "weight format", "Weights", ""},
    {Kind::gradient, "lang/", "gradient", "Gradient", ""}};

const KindNames& names_of(Kind kind) {
  return *std::find_if(std::begin(kKindNames), std::end(kKindNames),
                       [kind](const KindNames& names) { return names.kind == kind; });
}

bool is_built_in(const std::string& path) {
  const auto& all = embedded_templates();
  return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.first == path; });
}

std::string path_of(Kind kind, const std::string& name) {
  if (kind == Kind::rule && name.starts_with("jitstep_")) {
    // The library uses these rules, and Catalog::names() does not list them.
    std::string internal = "internal/" + name + ".cuh";
    if (is_built_in(internal)) return internal;
  }
  return str_cat(names_of(kind).folder, name, ".cuh");
}

// `when`: when to add the missing file, or empty.
std::string unknown_name(Kind kind, const std::string& name, const std::vector<std::string>& known,
                         const std::string& when) {
  const KindNames& names = names_of(kind);
  return str_cat("there is no ", names.one, " \"", name, "\"", did_you_mean(name, known),
                 ". Known ", names.one, "s: ", known.empty() ? "none" : joined(known), ".",
                 names.hint.empty() ? "" : str_cat(" ", names.hint, when, "."));
}

// Compilers would report what is missing here in generated code.
void check_complete(const Manifest& manifest, const std::string& content, const Texts& includes,
                    const std::string& file) {
  if (!includes.contains("lang/contract.cuh"))
    throw Error(str_cat(file, ": the file does not include the types and functions of templates. ",
                        "Add `#include \"../lang/contract.cuh\"` below `#pragma once`."));
  const KindNames& names = names_of(manifest.kind);
  if (!contains_word(content, names.body))
    throw Error(str_cat(file, ": the file has no `struct ", names.body,
                        "` with the functions of a ", names.one, ". Add it."));
  if (manifest.kind == Kind::rule && !manifest.flags.empty() && !contains_word(content, "template"))
    throw Error(str_cat(file, ": the rule has `struct Flags`. Write `template <Flags F>` before ",
                        "`struct Rule`."));
}

std::unique_ptr<Catalog> catalog_of_default_engine() {
  return std::make_unique<Catalog>(default_engine().templates());
}

}  // namespace

/// All manifests that were read, shared by a catalog and its snapshots.
struct Catalog::Manifests {
  ForkSafeMutex mutex;
  std::map<std::string, std::unique_ptr<const Manifest>> by_source;
  std::map<const Manifest*, std::shared_ptr<const OptionLayout>> layouts;  // by rule
};

Catalog::Catalog(TemplateStore& store) : store_(store), manifests_(std::make_shared<Manifests>()) {}
Catalog::~Catalog() = default;

std::shared_ptr<const Catalog> Catalog::snapshot() const {
  if (is_snapshot_) return shared_from_this();
  std::lock_guard lock(manifests_->mutex);
  if (!snapshot_) {
    const std::shared_ptr<Catalog> copy(new Catalog(*this));
    copy->is_snapshot_ = true;
    snapshot_ = copy;
  }
  return snapshot_;
}

const Manifest& Catalog::rule(const std::string& name) const { return find(Kind::rule, name); }
const Manifest& Catalog::codec(const std::string& name) const { return find(Kind::codec, name); }
const Manifest& Catalog::weights(const std::string& name) const {
  return find(Kind::weights, name);
}
const Manifest& Catalog::gradient() const { return find(Kind::gradient, "gradient"); }

std::shared_ptr<const OptionLayout> Catalog::option_layout(const std::string& name) const {
  const Manifest &of_rule = rule(name), &common = gradient();
  std::lock_guard lock(manifests_->mutex);
  auto& known = manifests_->layouts[&of_rule];
  if (!known) known = std::make_shared<const OptionLayout>(of_rule, common);
  return known;
}

bool Catalog::has(Kind kind, const std::string& name) const {
  return store_.find(path_of(kind, name)).has_value();
}

std::vector<std::string> Catalog::names(Kind kind) const {
  if (kind == Kind::gradient) return {"gradient"};
  const std::string_view folder = names_of(kind).folder;
  std::vector<std::string> names;
  for (const std::string& path : store_.list(folder)) {
    const std::string file = path.substr(folder.size());
    if (!file.ends_with(".cuh") || file.find('/') != file.npos) continue;
    // find() rejects other names, and shells would complete them.
    std::string stem = file.substr(0, file.size() - 4);
    if (file_name_problem(stem).empty()) names.push_back(std::move(stem));
  }
  return names;
}

const Manifest& Catalog::load_rule(const std::string& path) { return load(Kind::rule, path); }
const Manifest& Catalog::load_codec(const std::string& path) { return load(Kind::codec, path); }

const Manifest& Catalog::find(Kind kind, const std::string& name) const {
  const std::string path = path_of(kind, name);
  if (const Manifest* manifest = known(path)) return *manifest;
  const bool plain = name.find_first_of("/\\.") == name.npos && !name.empty();
  const auto content = plain ? store_.find(path) : std::nullopt;
  if (!content) throw Error(unknown_name(kind, name, names(kind), ""));
  const std::string shown = store_.data().shown_name(path);
  Manifest manifest = read(*content, shown, kind);
  manifest.path = manifest.source = path;
  if (shown != path) manifest.source = add_to_store(manifest, *content, shown);
  return remember(std::move(manifest));
}

const Manifest& Catalog::load(Kind kind, const std::string& path) {
  const std::string content = read_code_file(path);
  // Read under the user's path, so that errors name the user's file.
  Manifest manifest = read(content, path, kind);
  manifest.path = path_of(kind, manifest.name);
  manifest.source = add_to_store(manifest, content, path);
  const Manifest& stored = remember(std::move(manifest));
  make_newest(stored);
  return stored;
}

// Adds the file and its includes to the store. Returns its name there.
std::string Catalog::add_to_store(const Manifest& manifest, const std::string& content,
                                  const std::string& file) const {
  const Texts includes = newest_includes(content, manifest.path, store_);
  check_complete(manifest, content, includes, file);
  for (const auto& [name, text] : includes)
    if (!is_built_in(name)) check_source(text, store_.data().shown_name(name));
  if (auto source = store_.data().add_loaded(manifest.path, {file, content, includes}))
    return *source;
  const std::string_view one = names_of(manifest.kind).one;
  throw Error(str_cat("cannot load the ", one, " ", file, ": another ", one, " \"", manifest.name,
                      "\" exists (", store_.origin(manifest.path),
                      "). Rename the file and its namespace."));
}

// Also checks that the other files to which the manifest refers exist.
Manifest Catalog::read(const std::string& content, const std::string& path, Kind kind) const {
  Manifest manifest = read_manifest(content, path, kind);
  const auto check = [&](Kind named, const std::string& name, int line) {
    if (name.empty() || has(named, name)) return;
    throw Error(str_cat(
        path, ":", line, ": ",
        unknown_name(named, name, names(named), str_cat(" before the ", names_of(kind).one))));
  };
  for (const Slot& slot : manifest.slots) check(Kind::codec, slot.codec, slot.line);
  for (const RuleDefault& state : manifest.default_states) {
    check(Kind::codec, state.value, state.line);
    try {
      codec_options(codec(state.value), state.options, &manifest);
    } catch (const Error& error) {
      throw Error(str_cat(path, ":", state.line, ": ", error.what()));
    }
  }
  check(Kind::codec, manifest.vectors, manifest.key_lines["vectors"]);
  check(Kind::codec, manifest.signed_slots, manifest.key_lines["signed"]);
  check(Kind::weights, manifest.default_weights, manifest.key_lines["default weights"]);
  return manifest;
}

// The manifest of the newest revision, if it was read.
const Manifest* Catalog::known(const std::string& path) const {
  std::lock_guard lock(manifests_->mutex);
  const auto newest = newest_.find(path);
  const auto found = manifests_->by_source.find(newest == newest_.end() ? path : newest->second);
  return found == manifests_->by_source.end() ? nullptr : found->second.get();
}

// If two threads read the same file, the first manifest stays, because callers already hold references to it.
const Manifest& Catalog::remember(Manifest manifest) const {
  const std::string source = manifest.source;
  auto stored = std::make_unique<const Manifest>(std::move(manifest));
  std::lock_guard lock(manifests_->mutex);
  return *manifests_->by_source.try_emplace(source, std::move(stored)).first->second;
}

// The source of a file's first revision is its path.
void Catalog::make_newest(const Manifest& manifest) {
  std::lock_guard lock(manifests_->mutex);
  std::string& newest = newest_.try_emplace(manifest.path, manifest.path).first->second;
  if (newest == manifest.source) return;
  newest = manifest.source;
  snapshot_.reset();
}

Catalog& default_catalog() { return lock_free_static<catalog_of_default_engine>(); }

}  // namespace jitstep::jit
