#include "jit/tuning/tuning_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "jit/base/file_handle.h"
#include "jit/base/file_io.h"
#include "jit/base/log.h"
#include "jit/base/text.h"
#include "jit/tuning/embedded_records.h"

namespace jitstep::jit {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "tuning.jsonl";

// A lock that ends with it, also if a forked child still has the descriptor.
class FileLock {
 public:
  explicit FileLock(FileHandle file) : file_(std::move(file)) {}
  FileLock(FileLock&&) = default;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock() {
    if (file_) ::flock(file_.get(), LOCK_UN);
  }
  explicit operator bool() const { return static_cast<bool>(file_); }

 private:
  FileHandle file_;
};

// Locks the file until the returned lock is destroyed, or the process ends. If that fails, sets `why`. A stopped process
// may hold the lock, and a training step may wait for it, so the wait is short. On a file system without locks, two
// concurrent tuners may lose one of two records, but the file stays intact.
FileLock locked(const std::string& path, std::string& why) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kMostWait(3);
  FileHandle file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) why = std::strerror(errno);
  const auto end = Clock::now() + kMostWait;
  while (file && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) break;
    if (Clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      continue;
    }
    why = str_cat("another process has held the lock for ", kMostWait.count(),
                  " seconds. Continue or end that process");
    file.reset();
  }
  return FileLock(std::move(file));
}

std::string lines_of(const RecordFile& file) {
  std::string out;
  for (const TuningRecord& record : file.records) out += to_json(record) + "\n";
  for (const auto* lines : {&file.newer, &file.damaged})
    for (const std::string& line : *lines) out += line + "\n";
  return out;
}

// Empty if the file does not exist, or must not be read, for example because other users may write it. `why` gets the
// reason.
std::optional<RecordFile> read_if_trusted(const std::string& path, Trust trust, std::string& why) {
  const auto bytes = read_trusted(path, trust, kMostRecordBytes, &why);
  if (!bytes) return {};
  return parse_records(text_of(*bytes), path);
}

// A file with lines but without any record belongs to another program. Overwriting it would lose its content.
Problem foreign(const std::string& path, const RecordFile& file) {
  if (file.problems.empty() || !file.records.empty() || !file.newer.empty()) return {};
  return str_cat("cannot add a record to ", path, ": it has other content, which would be lost (",
                 file.problems.front(), "). Choose another file, or remove it.");
}

// Why no record can be added to the file. Empty if it does not exist. `content` gets its records. A link that leads
// nowhere exists, too: writing the file would replace it.
Problem problem_of_file(const std::string& path, RecordFile& content) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(path, ignored))) return {};
  std::string why;
  auto file = read_if_trusted(path, Trust::own, why);
  if (!file) return str_cat("cannot add a record to ", path, ": ", why);
  content = std::move(*file);
  return foreign(path, content);
}

// Why no record can be written into the folder of a file. Makes the folder.
Problem problem_of_folder(const std::string& path) {
  std::error_code failure;
  const std::string folder = fs::absolute(path, failure).parent_path().string();
  if (failure)
    return str_cat("cannot write ", path,
                   ": the working directory is missing. Name an absolute path.");
  if (auto problem = make_own_folder(folder)) return str_cat("cannot write ", path, ": ", *problem);
  if (::access(folder.c_str(), W_OK) != 0)
    return str_cat("cannot write into ", folder, ": ", std::strerror(errno));
  return {};
}

}  // namespace

RecordFile parse_records(std::string_view content, const std::string& name) {
  RecordFile file;
  for (int number = 1; !content.empty(); ++number) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    const std::string line(content.substr(0, end));
    content.remove_prefix(std::min(end + 1, content.size()));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    RecordLine read = read_record(line);
    if (read.record) file.records.push_back(std::move(*read.record));
    if (read.problem.empty()) continue;
    (read.newer ? file.newer : file.damaged).push_back(line);
    file.problems.push_back(str_cat(name, ":", number, ": ", read.problem));
  }
  return file;
}

RecordFile read_records(const std::string& path, Trust trust) {
  std::string why;
  return read_if_trusted(path, trust, why).value_or(RecordFile());
}

std::string user_records(const Settings& settings) {
  return settings.cache_dir.empty() ? "" : (fs::path(settings.cache_dir) / kFile).string();
}

std::vector<RecordSource> record_sources(const Settings& settings) {
  std::vector<RecordSource> all;
  const auto add = [&](const std::string& path, Trust trust) {
    std::error_code ignored;  // a folder without read permission counts as having no file
    if (path.empty() || !fs::exists(path, ignored)) return;
    std::string why;
    const auto file = read_if_trusted(path, trust, why);
    all.push_back({path, file.value_or(RecordFile())});
    if (!file) all.back().file.problems.push_back(str_cat("cannot read ", path, ": ", why));
  };
  add(user_records(settings), Trust::own);
  if (!settings.cache_readonly.empty())
    add((fs::path(settings.cache_readonly) / kFile).string(), Trust::own_or_root);
  for (const auto& [name, content] : embedded_records())
    all.push_back({std::string(name), parse_records(content, std::string(name))});
  return all;
}

void warn_of_skipped_lines(const RecordFile& file, const std::string& name, LogLevel level) {
  if (file.problems.empty()) return;
  const std::size_t others = file.problems.size() - 1;
  warn(level, str_cat(file.problems.front(),
                      others > 0 ? str_cat(" (and ", others, " more lines of ", name, ")") : "",
                      ". jitstep skips unreadable lines. Mend or delete them."));
}

Problem records_problem(const std::string& path) {
  if (auto problem = problem_of_folder(path)) return problem;
  RecordFile ignored;
  return problem_of_file(path, ignored);
}

Problem add_record(const std::string& path, const TuningRecord& record) {
  return add_records(path, {record});
}

Problem add_records(const std::string& path, const std::vector<TuningRecord>& records) {
  if (auto problem = problem_of_folder(path)) return problem;
  std::string why;
  const FileLock lock = locked(path + ".lock", why);
  if (!lock) return str_cat("cannot lock ", path, ".lock: ", why);
  RecordFile file;
  if (auto problem = problem_of_file(path, file)) return problem;
  for (const TuningRecord& record : records) {
    std::erase_if(file.records, [&](const TuningRecord& old) { return record.replaces(old); });
    file.records.push_back(record);
  }
  return write_atomically(path, bytes_of(lines_of(file)));
}

}  // namespace jitstep::jit
