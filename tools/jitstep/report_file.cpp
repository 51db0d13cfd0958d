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
namespace {

namespace fs = std::filesystem;

// The absolute path of a regular file, without links.
fs::path resolved(const std::string& path) {
  std::error_code failure;
  fs::path file = fs::absolute(path, failure);
  if (failure)
    throw jit::Error(jit::str_cat("cannot write ", path,
                                  ": the working directory is missing. Name an absolute path."));
  file = fs::weakly_canonical(file, failure);
  if (failure) throw jit::Error(jit::str_cat("cannot write ", path, ": ", failure.message()));
  return file;
}

// Such as /dev/stdout. A pipe has no path without links.
bool is_stream(const fs::file_status& status) {
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

bool may_write(const fs::path& path) { return ::access(path.c_str(), W_OK) == 0; }

// Whether write_output() can write the path. It replaces a regular file by another one in the same folder.
bool can_be_written(const std::string& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (fs::is_directory(status) || (fs::exists(status) && !may_write(path))) return false;
  if (is_stream(status)) return true;
  const fs::path folder = resolved(path).parent_path();
  return fs::is_directory(folder, failure) && may_write(folder);
}

}  // namespace

void check_report_path(const std::string& path) {
  if (!can_be_written(path))
    throw jit::Error(jit::str_cat("cannot write ", path,
                                  ". Name a file in an existing folder that you may write to."));
}

void write_report(const std::string& path, const std::string& text) {
  write_output(path, jit::bytes_of(text));
}

void write_output(const std::string& path, std::span<const std::byte> bytes) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (is_stream(status)) {
    const jit::FileHandle open(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!open || !jit::write_all(open.get(), bytes))
      throw jit::Error(jit::str_cat("cannot write ", path, ": ", jit::failure_advice(errno)));
    return;
  }
  const fs::path file = resolved(path);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const fs::perms permissions =
      fs::exists(status) ? status.permissions() : static_cast<fs::perms>(0666 & ~mask);
  if (auto problem = jit::write_atomically(file.string(), bytes)) throw jit::Error(*problem);
  fs::permissions(file, permissions, failure);
}

}  // namespace jitstep::tool
