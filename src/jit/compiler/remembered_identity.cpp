#include "jit/compiler/remembered_identity.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "jit/base/digest.h"
#include "jit/base/file_io.h"
#include "jit/base/private_files.h"
#include "jit/base/text.h"
#include "jit/compiler/isa.h"

namespace jitstep::jit {
namespace {

constexpr std::uint64_t kLargest = 1 << 16;
constexpr std::size_t kDigestLine = 65;  // 64 digits and a line break
constexpr int kVersion = 2;              // change it with the lines of identities

// A line that changes with every change of the file. Empty if there is no file.
std::string line_of(const std::string& program) {
  const std::string stamp = file_stamp(program);
  return stamp.empty() ? "" : str_cat("program: ", stamp, "\n");
}

// Prepends the SHA-256 of the content, to detect damage.
std::string with_digest(const std::string& content) { return sha256_hex(content) + "\n" + content; }

// g++ reports the name it was called by, clang its own path.
bool is_the_compiler(const std::string& program, const std::string& report) {
  std::error_code failure;
  const std::string clang =
      str_cat(" \"", std::filesystem::canonical(program, failure).string(), "\" -cc1 ");
  std::istringstream lines(report);
  bool itself = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("Reading specs from") || line.starts_with("Configuration file:"))
      return false;
    itself = itself || line == "COLLECT_GCC=" + program || line.starts_with(clang);
  }
  return itself;
}

}  // namespace

RememberedIdentity::RememberedIdentity(const Settings& settings,
                                       const std::vector<std::string>& words,
                                       const Variables& variables)
    : folder_(settings.cache_dir), program_(words.front()), stamp_(line_of(program_)) {
  const std::string processor = this_processor();
  if (folder_.empty() || processor.empty() || stamp_.empty()) return;
  std::string request = str_cat(kVersion, "\n", processor, "\n", joined(words, "\n"), "\n");
  for (const auto& [name, value] : variables) request += str_cat(name, "=", value, "\n");
  file_ = str_cat(folder_, "/", sha256_hex(request), kIdentitySuffix);
}

std::optional<std::string> RememberedIdentity::find() const {
  if (file_.empty() || folder_problem(folder_, Trust::own)) return {};
  const auto bytes = read_trusted(file_, Trust::own, kLargest);
  if (!bytes) return {};
  const std::string all = text_of(*bytes);
  const std::string content = all.substr(std::min(all.size(), kDigestLine));
  if (all != with_digest(content) || !content.starts_with(stamp_)) return {};
  mark_used(file_);
  return content.substr(stamp_.size());
}

void RememberedIdentity::store(const std::string& identity, const std::string& report) const {
  if (file_.empty() || !is_the_compiler(program_, report) || line_of(program_) != stamp_) return;
  if (make_own_folder(folder_)) return;
  (void)write_atomically(file_, bytes_of(with_digest(stamp_ + identity)));
}

}  // namespace jitstep::jit
