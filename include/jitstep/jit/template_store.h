// The texts kernels are made of, by name, such as "rules/adamw.cuh". Knows no meaning of any text.
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

/// Texts by name.
using Texts = std::map<std::string, std::string>;

/// A user's file and all that it includes, as they were when it was loaded.
struct LoadedFile {
  std::string path;
  std::string content;
  Texts includes;  // by the names they are found under

  /// Whether a kernel made of either is the same.
  bool same_texts(const LoadedFile& other) const {
    return content == other.content && includes == other.includes;
  }
};

/// Names to texts in four layers: texts added at run time, loaded files, a folder, the embedded table.
/// The upper layer hides the lower one. Thread safe.
class JITSTEP_API TemplateStore {
 public:
  /// `folder` is the middle layer, left out if empty; `embedded` is false in tests that want none.
  explicit TemplateStore(std::string folder = {}, bool embedded = true);
  ~TemplateStore();

  /// Adds or replaces a text of the top layer.
  void add(const std::string& name, std::string content);

  /// Keeps a version of a user's file for good and returns the name units include it by: `name`, or
  /// name@2, name@3, ... if earlier versions of the file are kept. The same texts keep their name. Nothing
  /// if `name` is that of another file or text, which differs.
  std::optional<std::string> keep(const std::string& name, LoadedFile file);

  /// The version that is kept under such a name, or null.
  std::shared_ptr<const LoadedFile> kept(const std::string& name) const;

  /// The text, or nothing if no layer has the name. Throws Error for a file of the folder that
  /// belongs to another user or that others may write to: it is code.
  std::optional<std::string> find(const std::string& name) const;

  /// The newest text of that name: a file of the folder as it is now, else the version kept last, else as
  /// `find` has it.
  std::optional<std::string> find_newest(const std::string& name) const;

  /// Where a text comes from, for messages: a path, "added at run time", or "embedded".
  std::string origin(const std::string& name) const;

  /// What messages call a text: the path of the user's file, or its name if it is no file.
  std::string shown_name(const std::string& name) const;

  /// The sorted names below a folder, such as list("rules/"), of all layers together.
  std::vector<std::string> list(std::string_view folder) const;

  /// Grows with everything added: what was derived from the texts may be out of date.
  std::uint64_t version() const;

 private:
  std::optional<std::string> file_of(const std::string& name) const;

  std::string folder_;
  bool embedded_;
  std::unique_ptr<ForkSafeMutex> mutex_;
  Texts added_;
  std::map<std::string, std::shared_ptr<const LoadedFile>> kept_;
  std::map<std::string, std::string> newest_;  // the version kept last
  std::uint64_t version_ = 0;
};

}  // namespace jitstep::jit
