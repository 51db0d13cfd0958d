// Source texts of kernels by name, such as "rules/adamw.cuh". Does not interpret the texts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// Finds source texts by name in four layers: texts added at run time, loaded files, a folder, the built-in table.
/// Upper layers hide lower ones. Thread safe.
class JITSTEP_API TemplateStore {
 public:
  /// `folder` is the third layer, or empty for none. `embedded` false removes the built-in table, for tests.
  explicit TemplateStore(std::string folder = {}, bool embedded = true);
  ~TemplateStore();

  /// Adds or replaces a text of the top layer.
  void add(const std::string& name, std::string content);

  /// The text, or nothing if no layer has the name. A file of the folder is code: throws an Error if it belongs to
  /// another user or is writable by others.
  std::optional<std::string> find(const std::string& name) const;

  /// The source of a text for messages: a path, "added at run time", or "embedded".
  std::string origin(const std::string& name) const;

  /// The sorted names below a folder in all layers, for example list("rules/").
  std::vector<std::string> list(std::string_view folder) const;

  /// Increases with every addition, so that callers can detect stale derived data.
  std::uint64_t version() const;

  // ---- for jitstep itself

  /// Its definition is not installed.
  struct Data;
  Data& data() { return *data_; }
  const Data& data() const { return *data_; }

 private:
  std::unique_ptr<Data> data_;
};

}  // namespace jitstep::jit
