// All rules, codecs and weight formats, by name.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/manifest.h"
#include "jitstep/jit/template_store.h"

namespace jitstep::jit {

struct OptionLayout;

/// The manifests of a store's templates, each read on first use. Thread safe. Each revision of a file has one Manifest.
/// References stay valid while the catalog or one of its snapshots exists, also to older revisions of a reloaded file.
class JITSTEP_API Catalog : public std::enable_shared_from_this<Catalog> {
 public:
  /// `store` must outlive the catalog and its snapshots.
  explicit Catalog(TemplateStore& store);
  ~Catalog();
  Catalog& operator=(const Catalog&) = delete;

  /// This catalog as it is now. Files that are loaded later do not change what its names mean. The same object until a
  /// name gets another meaning.
  std::shared_ptr<const Catalog> snapshot() const;

  /// The manifest of a name. An unknown name throws an Error that lists the known names.
  const Manifest& rule(const std::string& name) const;
  const Manifest& codec(const std::string& name) const;
  const Manifest& weights(const std::string& name) const;
  /// The options common to all rules.
  const Manifest& gradient() const;
  /// Where OptionValues store the options of a rule. The same object for all of them.
  std::shared_ptr<const OptionLayout> option_layout(const std::string& rule) const;

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
  struct Manifests;

  Catalog(const Catalog&) = default;  // for snapshot()

  const Manifest& find(Manifest::Kind kind, const std::string& name) const;
  const Manifest& load(Manifest::Kind kind, const std::string& path);
  Manifest read(const std::string& content, const std::string& path, Manifest::Kind kind) const;
  std::string add_to_store(const Manifest& manifest, const std::string& content,
                           const std::string& file) const;
  const Manifest* known(const std::string& path) const;
  const Manifest& remember(Manifest manifest) const;
  void make_newest(const Manifest& manifest);

  TemplateStore& store_;
  std::shared_ptr<Manifests> manifests_;  // its mutex also protects the members below
  std::map<std::string, std::string> newest_;  // the source of reloaded files, by path
  mutable std::shared_ptr<const Catalog> snapshot_;  // empty until requested
  bool is_snapshot_ = false;
};

/// The catalog of the default engine's templates, never destroyed.
JITSTEP_API Catalog& default_catalog();

}  // namespace jitstep::jit
