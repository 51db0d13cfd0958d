// A temporary folder, for tests of the front end.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "jit/base/file_io.h"

namespace jitstep::tests {

/// A folder that only this user can enter. The destructor removes it with its content.
struct OwnFolder {
  OwnFolder() {
    if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("no temporary folder " + path);
  }
  ~OwnFolder() { jit::remove_folder(path); }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  std::string path = std::filesystem::temp_directory_path() / "jitstep_test_XXXXXX";
};

}  // namespace jitstep::tests
