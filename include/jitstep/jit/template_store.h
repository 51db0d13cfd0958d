// Source texts of kernels by name, such as "rules/adamw.cuh". Does not interpret the texts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jitstep/jit/export.h"

namespace jitstep::jit {

class ForkSafeMutex;

/// Source texts by name.
using Texts = std::map<std::string, std::string>;

/// A user's file and its includes, as they were when it was loaded.
struct LoadedFile {
  std::string path;
  std::string content;
  Texts includes;  // by include name

  /// True if both produce the same kernels.
  bool same_texts(const LoadedFile& other) const {
    return content == other.content && includes == other.includes;
  }
};

/// Finds source texts by name in four layers: texts added at run time, loaded files, a folder, the built-in table.
/// Upper layers hide lower ones. Thread safe.
class JITSTEP_API TemplateStore {
 public:
  /// `folder` is the third layer, or empty for none. `embedded` false removes the built-in table, for tests.
  explicit TemplateStore(std::string folder = {}, bool embedded = true);
  ~TemplateStore();

  /// Adds or replaces a text of the top layer.
  void add(const std::string& name, std::string content);

  /// Stores a version of a user's file permanently and returns the name to include it by: `name`, or name@2, name@3,
  /// ... if earlier versions exist. The same texts get the same name. Returns nothing if `name` belongs to another file
  /// or text with different content.
  std::optional<std::string> add_loaded(const std::string& name, LoadedFile file);

  /// The stored version with this name, or null.
  std::shared_ptr<const LoadedFile> loaded(const std::string& name) const;

  /// The text, or nothing if no layer has the name. A file of the folder is code: throws an Error if it belongs to
  /// another user or is writable by others.
  std::optional<std::string> find(const std::string& name) const;

  /// The newest text of that name: the file in the folder as it is now, else the last stored version, else the result
  /// of find().
  std::optional<std::string> find_newest(const std::string& name) const;

  /// The source of a text for messages: a path, "added at run time", or "embedded".
  std::string origin(const std::string& name) const;

  /// The name of a text in messages: the path of the user's file, or its name if it is not a file.
  std::string shown_name(const std::string& name) const;

  /// The sorted names below a folder in all layers, for example list("rules/").
  std::vector<std::string> list(std::string_view folder) const;

  /// Increases with every addition, so that callers can detect stale derived data.
  std::uint64_t version() const;

 private:
  std::optional<std::string> file_of(const std::string& name) const;

  std::string folder_;
  bool embedded_;
  std::unique_ptr<ForkSafeMutex> mutex_;
  Texts added_;
  std::map<std::string, std::shared_ptr<const LoadedFile>> loaded_files_;
  std::map<std::string, std::string> newest_;  // last stored version, by name
  std::uint64_t version_ = 0;
};

}  // namespace jitstep::jit
