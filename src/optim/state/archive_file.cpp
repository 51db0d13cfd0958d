#include "optim/state/archive_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <torch/types.h>

#include <cerrno>
#include <filesystem>
#include <sstream>

#include "jit/base/file_io.h"

namespace jitstep {
namespace {

namespace fs = std::filesystem;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

std::string first_line(const std::exception& error) {
  const auto* const torchs = dynamic_cast<const c10::Error*>(&error);
  const std::string all = torchs != nullptr ? torchs->what_without_backtrace() : error.what();
  return all.substr(0, all.find('\n'));
}

// Where links lead, be it to a file that there is not yet.
fs::path followed(fs::path file) {
  constexpr int kMostLinks = 40;  // as many as the system follows
  std::error_code problem;
  for (int links = 0; fs::is_symlink(file, problem); ++links) {
    TORCH_CHECK(links < kMostLinks, "the optimizer cannot be saved to ", file.string(),
                ", a link that leads back to itself; remove it");
    const fs::path to = fs::read_symlink(file);
    file = to.is_absolute() ? to : file.parent_path() / to;
  }
  return file;
}

// A new file beside another, of a name that nobody can foretell: where others may write to the folder, they would have
// put a link there, to a file of this user's.
jit::FileHandle new_file_beside(const fs::path& file, std::string& name) {
  for (;;) {
    std::uint64_t number = 0;
    if (::getrandom(&number, sizeof(number), 0) < 0) return jit::FileHandle();
    std::ostringstream suffix;
    suffix << "." << std::hex << number << ".part";
    name = file.string() + suffix.str();
    jit::FileHandle made(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (made || errno != EEXIST) return made;
  }
}

// Torch's own writer ends the program where a disk is full: this one takes all that it is given, and says at the end
// that it could not.
void write_whole(OutputArchive& archive, int file) {
  int failure = 0;
  archive.save_to([&](const void* data, std::size_t size) {
    if (failure == 0 && !jit::write_all(file, {static_cast<const std::byte*>(data), size}))
      failure = errno;
    return size;
  });
  if (failure != 0) throw std::runtime_error(jit::failure_advice(failure));
}

}  // namespace

// Torch says neither which file nor what may have become of it.
InputArchive open_archive(const std::string& file, std::optional<torch::Device> device) {
  TORCH_CHECK(!fs::is_directory(file), file,
              " is a folder; name the file in it that an optimizer was saved to");
  TORCH_CHECK(fs::is_regular_file(file), "there is no file ", file, " to load an optimizer from");
  InputArchive archive;
  try {
    archive.load_from(file, device);
  } catch (const std::exception& error) {
    TORCH_CHECK(
        false, file, " is no whole archive: it was cut short, damaged or written by ",
        "something else; load one that was saved to its end (torch says: ", first_line(error), ")");
  }
  return archive;
}

// Aside first: what an earlier save has left is worth more than the half of a new one.
void write_file(OutputArchive& archive, const std::string& file) {
  std::error_code problem;
  const fs::path target = followed(file);
  const fs::file_status before = fs::status(target, problem);
  TORCH_CHECK(!fs::exists(before) || fs::is_regular_file(before),
              "the optimizer cannot be saved to ", file, ", which is no regular file and would be ",
              "replaced; name another, or torch::save into a stream");
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  TORCH_CHECK(fs::is_directory(folder), "the optimizer cannot be saved to ", file,
              ": there is no folder ", folder.string());
  std::string aside;
  const jit::FileHandle part = new_file_beside(target, aside);
  TORCH_CHECK(part, "the optimizer cannot be saved to ", file, ": ", jit::failure_advice(errno));
  try {
    write_whole(archive, part.get());
    const bool rights = !fs::is_regular_file(before) ||
                        ::fchmod(part.get(), static_cast<mode_t>(before.permissions())) == 0;
    // Some file systems say only here that they have no room.
    if (!rights || ::fsync(part.get()) != 0) throw std::runtime_error(jit::failure_advice(errno));
    fs::rename(aside, target);
  } catch (const std::exception& error) {
    fs::remove(aside, problem);
    TORCH_CHECK(false, "the optimizer cannot be saved to ", file, ": ", first_line(error));
  }
}

}  // namespace jitstep
