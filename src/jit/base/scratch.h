// Temporary private folders.
#pragma once

#include <string>
#include <vector>

#include "jit/base/file_handle.h"
#include "jitstep/jit/settings.h"

namespace jitstep::jit {

/// Folders for private temporary files, best first. Some may not exist.
std::vector<std::string> scratch_folders(const Settings& settings);

/// Removes from `parents` the PrivateFolders that killed programs of this user have left.
void sweep_scratch(const std::vector<std::string>& parents);

/// A new folder that only this user can enter. The destructor removes it with its content. A file lock marks it as in
/// use, and the kernel releases the lock of a killed process.
class PrivateFolder {
 public:
  /// Makes the folder in the first of `parents` that allows it. Throws an Error that names them all if none does.
  explicit PrivateFolder(const std::vector<std::string>& parents);
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  bool make_in(const std::string& parent);

  std::string path_;
  FileHandle lock_;
};

}  // namespace jitstep::jit
