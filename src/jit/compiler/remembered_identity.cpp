#include "jit/compiler/remembered_identity.h"

#include <sys/stat.h>

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
constexpr std::size_t kSeal = 65;  // 64 digits and the end of their line
constexpr int kForm = 2;           // another one whenever the lines of identities change

// Changes with every change of the file; empty if there is none.
std::string stamp_of(const std::string& program) {
  struct stat s {};
  if (::stat(program.c_str(), &s) != 0) return {};
  return str_cat("program: ", s.st_dev, " ", s.st_ino, " ", s.st_size, " ", s.st_mtim.tv_sec, ".",
                 s.st_mtim.tv_nsec, " ", s.st_ctim.tv_sec, ".", s.st_ctim.tv_nsec, "\n");
}

// The SHA-256 of what follows finds damage.
std::string sealed(const std::string& content) { return sha256_hex(content) + "\n" + content; }

// g++ says how it was called, clang where it lies.
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
    : folder_(settings.cache_dir), program_(words.front()), stamp_(stamp_of(program_)) {
  const std::string processor = this_processor();
  if (folder_.empty() || processor.empty() || stamp_.empty()) return;
  std::string question = str_cat(kForm, "\n", processor, "\n", joined(words, "\n"), "\n");
  for (const auto& [name, value] : variables) question += str_cat(name, "=", value, "\n");
  file_ = str_cat(folder_, "/", sha256_hex(question), ".compiler");
}

std::optional<std::string> RememberedIdentity::find() const {
  if (file_.empty() || folder_problem(folder_, Trust::own)) return {};
  const auto bytes = read_trusted(file_, Trust::own, kLargest);
  if (!bytes) return {};
  const std::string all = text_of(*bytes);
  const std::string content = all.substr(std::min(all.size(), kSeal));
  if (all != sealed(content) || !content.starts_with(stamp_)) return {};
  return content.substr(stamp_.size());
}

void RememberedIdentity::keep(const std::string& identity, const std::string& report) const {
  if (file_.empty() || !is_the_compiler(program_, report) || stamp_of(program_) != stamp_) return;
  if (make_folder(folder_) || folder_problem(folder_, Trust::own)) return;
  (void)write_atomically(file_, bytes_of(sealed(stamp_ + identity)));
}

}  // namespace jitstep::jit
