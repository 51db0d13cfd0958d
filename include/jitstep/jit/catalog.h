// Every rule, codec and weight format there is, by name.
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

/// The manifests of a store's templates, each read when first asked for. Thread safe. The
/// references it gives stay valid as long as it does: also those of a user's file that was changed and
/// loaded again, for who began with them. An edition numbers what all names meant at some time, from 1;
/// each such change begins another.
class JITSTEP_API Catalog {
 public:
  /// `store` must outlive the catalog.
  explicit Catalog(TemplateStore& store);
  ~Catalog();
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  /// As of an edition, or (0) of now. An unknown name is an Error that lists what there is.
  const Manifest& rule(const std::string& name, int catalog_revision = 0) const;
  const Manifest& codec(const std::string& name, int catalog_revision = 0) const;
  const Manifest& weights(const std::string& name) const;
  /// The options common to all rules.
  const Manifest& gradient() const;

  /// The edition of now.
  int catalog_revision() const;
  /// The edition since which a rule or codec has been what it is in `edition`.
  int revision_since(Manifest::Kind kind, const std::string& name, int catalog_revision) const;

  /// Whether there is such a template; its manifest may still be unreadable.
  bool has(Manifest::Kind kind, const std::string& name) const;

  /// All names of a kind, sorted.
  std::vector<std::string> names(Manifest::Kind kind) const;

  /// Adds a file of the user's under its stem, which must be its namespace, and returns its
  /// manifest. Loading it again does nothing unless it, or what it includes, has changed: then its name
  /// means the new version from now on. Another file's name is an Error. The file is code: it must belong
  /// to this user or to root and be writable by nobody else.
  const Manifest& load_rule(const std::string& path);
  const Manifest& load_codec(const std::string& path);

 private:
  using Revisions = std::map<int, std::string>;  // since when, and the source

  const Manifest& find(Manifest::Kind kind, const std::string& name, int catalog_revision = 0) const;
  const Manifest& load(Manifest::Kind kind, const std::string& path);
  Manifest read(const std::string& content, const std::string& path, Manifest::Kind kind) const;
  std::string keep(const Manifest& manifest, const std::string& content,
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
