// All rules, codecs and weight formats, by name.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/manifest.h"
#include "jitstep/jit/template_store.h"

namespace jitstep::jit {

class ForkSafeMutex;

/// The manifests of a store's templates, each read on first use. Thread safe. References stay valid for the catalog's
/// lifetime, also to older revisions of a reloaded file. Revisions count from 1. Each reload of a changed file starts a
/// new revision.
class JITSTEP_API Catalog {
 public:
  /// `store` must outlive the catalog.
  explicit Catalog(TemplateStore& store);
  ~Catalog();
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  /// The manifest in a revision. 0 means the current one. An unknown name throws an Error that lists the known names.
  const Manifest& rule(const std::string& name, int catalog_revision = 0) const;
  const Manifest& codec(const std::string& name, int catalog_revision = 0) const;
  const Manifest& weights(const std::string& name) const;
  /// The options common to all rules.
  const Manifest& gradient() const;

  /// The current revision.
  int catalog_revision() const;
  /// The first revision that has the same version of a rule or codec as `catalog_revision`.
  int revision_since(Manifest::Kind kind, const std::string& name, int catalog_revision) const;

  /// True if the template exists. Its manifest may still be invalid.
  bool has(Manifest::Kind kind, const std::string& name) const;

  /// All names of a kind, sorted.
  std::vector<std::string> names(Manifest::Kind kind) const;

  /// Adds a user's file under its stem, which must be its namespace, and returns its manifest. Loading it again has no
  /// effect unless the file or one of its includes has changed. Then the name means the new version. The name of
  /// another file throws an Error. The file is code: it must belong to this user or to root and must not be writable by
  /// others.
  const Manifest& load_rule(const std::string& path);
  const Manifest& load_codec(const std::string& path);

 private:
  using Revisions = std::map<int, std::string>;  // first revision, source

  const Manifest& find(Manifest::Kind kind, const std::string& name,
                       int catalog_revision = 0) const;
  const Manifest& load(Manifest::Kind kind, const std::string& path);
  Manifest read(const std::string& content, const std::string& path, Manifest::Kind kind) const;
  std::string add_to_store(const Manifest& manifest, const std::string& content,
                           const std::string& file) const;
  std::pair<int, std::string> source_at(const std::string& path, int catalog_revision) const;
  const Manifest* known(const std::string& source) const;
  const Manifest& remember(Manifest manifest) const;
  void make_newest(const Manifest& manifest);

  TemplateStore& store_;
  std::unique_ptr<ForkSafeMutex> mutex_;
  mutable std::map<std::string, std::unique_ptr<const Manifest>> manifests_;  // by source
  std::map<std::string, Revisions> revisions_;  // of loaded files, by path
  int catalog_revision_ = 1;
};

/// The catalog of the default engine's templates, never destroyed.
JITSTEP_API Catalog& default_catalog();

}  // namespace jitstep::jit
