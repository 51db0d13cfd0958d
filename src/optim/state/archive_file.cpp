#include "optim/state/archive_file.h"

#include <caffe2/serialize/inline_container.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <torch/types.h>

#include <cerrno>
#include <filesystem>
#include <ios>

#include "jit/base/file_io.h"
#include "jit/base/lines.h"
#include "jit/base/text.h"

namespace jitstep {
namespace {

namespace fs = std::filesystem;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

// Resolves symbolic links. The target need not exist yet.
fs::path followed(fs::path file) {
  constexpr int kMostLinks = 40;  // Linux's own limit
  std::error_code problem;
  for (int links = 0; fs::is_symlink(file, problem); ++links) {
    TORCH_CHECK(links < kMostLinks, "jitstep: the optimizer cannot be saved to ", file.string(),
                ": the symbolic link leads back to itself. Remove it.");
    const fs::path to = fs::read_symlink(file, problem);
    TORCH_CHECK(!problem, "jitstep: the optimizer cannot be saved to ", file.string(), ": ",
                problem.message(), ". Name another file.");
    file = to.is_absolute() ? to : file.parent_path() / to;
  }
  return file;
}

// Creates a temporary file in the same folder. Its name is random: in a folder that others can write to, an attacker
// could otherwise place a link there to one of this user's files.
jit::FileHandle new_temporary_file(const fs::path& file, std::string& name) {
  constexpr std::size_t kMostBytes = 255;  // of a file name on Linux
  const std::string own = file.filename().string();
  const fs::path start = own.size() > kMostBytes ? file : file.parent_path() / own.substr(0, 200);
  for (;;) {
    const auto number = jit::random_number();
    if (!number) return jit::FileHandle();
    name = jit::str_cat(start.string(), ".", std::hex, *number, ".part");
    jit::FileHandle result(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (result || errno != EEXIST) return result;
  }
}

// torch's own file writer terminates the program if the disk is full. This one accepts all data and throws at the end.
void write_whole(const std::function<void(const ByteSink&)>& write_content, int file) {
  int failure = 0;
  write_content([&](const void* data, std::size_t size) {
    if (failure == 0 && !jit::write_all(file, {static_cast<const std::byte*>(data), size}))
      failure = errno;
    return size;
  });
  if (failure != 0) throw std::runtime_error(jit::failure_advice(failure));
}

// Gives the new file the rights of the one that it replaces. File systems without rights refuse it.
bool keep_rights(int file, const fs::file_status& before) {
  struct stat now {};
  if (!fs::is_regular_file(before) || ::fstat(file, &now) != 0) return true;
  const auto rights = static_cast<mode_t>(before.permissions());
  return (now.st_mode & 07777) == rights || ::fchmod(file, rights) == 0 || errno == EPERM ||
         errno == ENOTSUP || errno == ENOSYS;
}

// Whether Python's torch.save wrote the file. A C++ archive has constants, too.
bool is_of_python(const std::string& file) {
  try {
    caffe2::serialize::PyTorchStreamReader reader(file);
    return reader.hasRecord("data.pkl") && !reader.hasRecord("constants.pkl");
  } catch (const std::exception&) {
    return false;
  }
}

std::string problem_of(const std::string& path, fs::file_type wanted, const char* name) {
  std::error_code failure;
  const fs::file_type type = fs::status(path, failure).type();
  if (type == wanted) return {};
  if (type == fs::file_type::not_found) return std::string("there is no such ") + name;
  return failure ? failure.message() : std::string("it is no ") + name;
}

}  // namespace

std::string file_problem(const std::string& path) {
  return problem_of(path, fs::file_type::regular, "file");
}

std::string folder_problem(const std::string& path) {
  return problem_of(path, fs::file_type::directory, "folder");
}

std::string first_line(const std::exception& error) {
  const auto* const torch_error = dynamic_cast<const c10::Error*>(&error);
  return jit::first_line(torch_error != nullptr ? torch_error->what_without_backtrace()
                                                : error.what());
}

// torch's error names neither the file nor a likely cause.
InputArchive open_archive(const std::string& file) {
  TORCH_CHECK(!file.empty(),
              "jitstep: cannot load an optimizer: the file name is empty. Name a file.");
  const std::string missing = file_problem(file);
  TORCH_CHECK(missing.empty(), "jitstep: cannot load an optimizer from ", file, ": ", missing,
              ". Check the path.");
  InputArchive archive;
  try {
    archive.load_from(file, torch::kCPU);
  } catch (const std::exception& error) {
    TORCH_CHECK(!is_of_python(file), "jitstep: cannot load an optimizer from ", file,
                ": it is a checkpoint of Python. Convert it: python -m jitstep convert ", file,
                " NEW_FILE --to c++");
    TORCH_CHECK(false, "jitstep: cannot load an optimizer from ", file,
                ": the file is truncated, damaged or no checkpoint. Load a complete one. torch "
                "reports: ",
                first_line(error));
  }
  return archive;
}

void write_file(OutputArchive& archive, const std::string& file) {
  write_file(file, [&](const ByteSink& sink) { archive.save_to(sink); });
}

// Writes to a temporary file first, so that an interrupted save does not destroy an earlier archive.
void write_file(const std::string& file,
                const std::function<void(const ByteSink&)>& write_content) {
  std::error_code problem;
  TORCH_CHECK(!file.empty(),
              "jitstep: the optimizer cannot be saved: the file name is empty. Name ", "a file.");
  const fs::path target = followed(file);
  const fs::file_status before = fs::status(target, problem);
  TORCH_CHECK(!fs::exists(before) || fs::is_regular_file(before),
              "jitstep: the optimizer cannot be saved to ", file,
              ": it is not a regular file, and saving would replace it. Name another file, or use ",
              "torch::save with a stream.");
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  const std::string missing = folder_problem(folder);
  TORCH_CHECK(missing.empty(), "jitstep: the optimizer cannot be saved to ", file,
              ": cannot use the folder ", folder.string(), ": ", missing,
              ". Create it, or name another one.");
  std::string temporary;
  const jit::FileHandle part = new_temporary_file(target, temporary);
  TORCH_CHECK(part, "jitstep: the optimizer cannot be saved to ", file, ": ",
              jit::failure_advice(errno));
  try {
    write_whole(write_content, part.get());
    // Some file systems report a full disk only at fsync.
    if (!keep_rights(part.get(), before) || !jit::sync_file(part.get()))
      throw std::runtime_error(jit::failure_advice(errno));
    fs::rename(temporary, target);
  } catch (const std::exception& error) {
    fs::remove(temporary, problem);
    TORCH_CHECK(false, "jitstep: the optimizer cannot be saved to ", file, ": ", first_line(error));
  }
}

}  // namespace jitstep
