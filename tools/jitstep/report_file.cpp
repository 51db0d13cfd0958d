#include "report_file.h"

#include <jit/base/text.h>
#include <jitstep/jit/error.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace jitstep::tool {

namespace fs = std::filesystem;

void check_report_path(const std::string& path) {
  const fs::path folder = fs::absolute(path).parent_path();
  const std::string file = fs::exists(path) ? path : folder.string();
  if (fs::is_directory(path) || !fs::is_directory(folder) || ::access(file.c_str(), W_OK) != 0)
    throw jit::Error(jit::str_cat("cannot write ", path,
                                  ". Name a file in an existing folder that you may write to."));
}

void write_report(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush())
    throw jit::Error(
        jit::str_cat("cannot write ", path, ". Check its permissions and the space on its disk."));
}

}  // namespace jitstep::tool
