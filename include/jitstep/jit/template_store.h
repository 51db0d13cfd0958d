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

/// Names to texts in three layers: texts added at run time, a folder, the embedded table.
/// The upper layer hides the lower one. Thread safe.
class JITSTEP_API TemplateStore {
 public:
  /// `folder` is the middle layer, left out if empty; `embedded` is false in tests that want none.
  explicit TemplateStore(std::string folder = {}, bool embedded = true);
  ~TemplateStore();

  /// Adds or replaces a text of the top layer.
  void add(const std::string& name, std::string content);

  /// The text of that name, which is added to the top layer if no layer has it. `path` is the file it was
  /// read from.
  std::string find_or_add(const std::string& name, const std::string& content,
                          const std::string& path);

  /// The text, or nothing if no layer has the name. Throws Error for a file of the folder that
  /// belongs to another user or that others may write to: it is code.
  std::optional<std::string> find(const std::string& name) const;

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
  std::map<std::string, std::string> added_;
  std::map<std::string, std::string> paths_;  // of those that were read from a file
  std::uint64_t version_ = 0;
};

}  // namespace jitstep::jit
