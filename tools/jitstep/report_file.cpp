#include "report_file.h"

#include <fcntl.h>
#include <jit/base/file_io.h>
#include <jit/base/private_files.h>
#include <jit/base/text.h>
#include <jitstep/jit/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

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
  write_output(path, jit::bytes_of(text));
}

void write_output(const std::string& path, std::span<const std::byte> bytes) {
  const fs::path file = fs::weakly_canonical(fs::absolute(path));
  const bool exists = fs::exists(file);
  if (exists && !fs::is_regular_file(file)) {  // such as /dev/stdout
    const jit::FileHandle open(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!open || !jit::write_all(open.get(), bytes))
      throw jit::Error(jit::str_cat("cannot write ", path, ": ", jit::failure_advice(errno)));
    return;
  }
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const fs::perms permissions =
      exists ? fs::status(file).permissions() : static_cast<fs::perms>(0666 & ~mask);
  if (auto problem = jit::write_atomically(file.string(), bytes)) throw jit::Error(*problem);
  std::error_code ignored;
  fs::permissions(file, permissions, ignored);
}

}  // namespace jitstep::tool
