// The texts of a TemplateStore: added ones, and the versions of users' files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "jit/base/fork_guard.h"
#include "jitstep/jit/template_store.h"

namespace jitstep::jit {

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

/// Thread safe.
struct TemplateStore::Data {
  /// Stores a version of a user's file permanently and returns the name to include it by: `name`, or name@2, name@3,
  /// ... if earlier versions exist. The same texts get the same name. Returns nothing if `name` belongs to another file
  /// or text with different content.
  std::optional<std::string> add_loaded(const std::string& name, LoadedFile file);
  /// The stored version with this name, or null.
  std::shared_ptr<const LoadedFile> loaded(const std::string& name) const;
  /// See TemplateStore::find.
  std::optional<std::string> find(const std::string& name) const;
  /// The newest text of that name: the file in the folder as it is now, else the last stored version, else the result
  /// of find().
  std::optional<std::string> find_newest(const std::string& name) const;
  /// The user's file that a text is, if it is one.
  std::optional<std::string> file_of(const std::string& name) const;
  /// The name of a text in messages: the path of the user's file, or its name if it is not a file.
  std::string shown_name(const std::string& name) const { return file_of(name).value_or(name); }

  std::string folder;
  bool embedded = true;
  ForkSafeMutex loading = {};  // of add_loaded(), which looks at files before it locks `mutex`
  mutable ForkSafeMutex mutex = {};  // of the members below
  Texts added = {};
  std::map<std::string, std::shared_ptr<const LoadedFile>> files = {};
  std::map<std::string, std::string> newest = {};  // last stored version, by name
  std::uint64_t additions = 0;
};

}  // namespace jitstep::jit
