#include "optim/state/archive_file.h"

#include <torch/types.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

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

// Of a file that there is not yet, whoever else writes there.
std::string name_beside(const fs::path& file) {
  static std::atomic<int> last{0};
  const std::string own = "." + std::to_string(getpid()) + "." + std::to_string(++last) + ".part";
  return file.string() + own;
}

// Torch's own writer ends the program where a disk is full: this one takes all that it is given, and says at the end
// that it could not.
void write_whole(OutputArchive& archive, const std::string& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  archive.save_to([&](const void* data, std::size_t size) {
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
    return size;
  });
  file.close();
  if (!file) throw std::runtime_error("it cannot be written; is there room, and the right to?");
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
  const fs::path target =
      fs::is_symlink(file, problem) ? fs::weakly_canonical(file, problem) : fs::path(file);
  const fs::file_status before = fs::status(target, problem);
  TORCH_CHECK(!fs::exists(before) || fs::is_regular_file(before),
              "the optimizer cannot be saved to ", file, ", which is no regular file and would be ",
              "replaced; name another, or torch::save into a stream");
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  TORCH_CHECK(fs::is_directory(folder), "the optimizer cannot be saved to ", file,
              ": there is no folder ", folder.string());
  const std::string aside = name_beside(target);
  try {
    write_whole(archive, aside);
    if (fs::is_regular_file(before)) fs::permissions(aside, before.permissions());
    fs::rename(aside, target);
  } catch (const std::exception& error) {
    fs::remove(aside, problem);
    TORCH_CHECK(false, "the optimizer cannot be saved to ", file, ": ", first_line(error));
  }
}

}  // namespace jitstep
