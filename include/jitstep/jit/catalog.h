// Every rule, codec and weight format there is, by name.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/manifest.h"
#include "jitstep/jit/template_store.h"

namespace jitstep::jit {

class ForkSafeMutex;

/// The manifests of a store's templates, each read when first asked for. Thread safe. The
/// references it gives stay valid as long as it does.
class JITSTEP_API Catalog {
 public:
  /// `store` must outlive the catalog.
  explicit Catalog(TemplateStore& store);
  ~Catalog();
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  /// An unknown name is an Error that lists what there is.
  const Manifest& rule(const std::string& name) const;
  const Manifest& codec(const std::string& name) const;
  const Manifest& weights(const std::string& name) const;
  /// The options common to all rules.
  const Manifest& gradient() const;

  /// Whether there is such a template; its manifest may still be unreadable.
  bool has(Manifest::Kind kind, const std::string& name) const;

  /// All names of a kind, sorted.
  std::vector<std::string> names(Manifest::Kind kind) const;

  /// Adds a file of the user's under its stem, which must be its namespace, and returns its
  /// manifest. Loading the same text again does nothing. The file is code: it must belong to this
  /// user or to root and be writable by nobody else.
  const Manifest& load_rule(const std::string& path);
  const Manifest& load_codec(const std::string& path);

 private:
  const Manifest& find(Manifest::Kind kind, const std::string& name) const;
  const Manifest& load(Manifest::Kind kind, const std::string& path);
  Manifest read(const std::string& content, const std::string& path, Manifest::Kind kind) const;
  const Manifest* known(const std::string& path) const;
  const Manifest& remember(Manifest manifest) const;

  TemplateStore& store_;
  std::unique_ptr<ForkSafeMutex> mutex_;
  mutable std::map<std::string, std::unique_ptr<const Manifest>> manifests_;
};

/// The catalog of the default engine's templates, never destroyed.
JITSTEP_API Catalog& default_catalog();

}  // namespace jitstep::jit
