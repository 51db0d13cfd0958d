#include "data_set.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

namespace fashion_mnist {
namespace {

using std::filesystem::path;

// IDX: big-endian words; the magic's third byte is the element type (8: bytes), its last the
// number of dimensions, whose sizes follow.
constexpr std::uint32_t kImagesMagic = 0x00000803;
constexpr std::uint32_t kLabelsMagic = 0x00000801;

[[noreturn]] void fail(const path& file, const std::string& what) {
  throw std::runtime_error(file.string() + ": " + what +
                           ". Fashion-MNIST comes with the Debian and Ubuntu package "
                           "dataset-fashion-mnist (apt install dataset-fashion-mnist); another "
                           "folder with its four .gz files is given with --data.");
}

struct CloseGzip {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, CloseGzip>;

/// A reader that either gives all bytes asked for or throws.
class IdxFile {
 public:
  explicit IdxFile(const path& file) : path_(file), gzip_(gzopen(file.c_str(), "rb")) {
    if (!gzip_) fail(path_, std::string("cannot be opened (") + std::strerror(errno) + ")");
  }

  std::vector<std::uint8_t> read(std::size_t count) {
    std::vector<std::uint8_t> bytes(count);
    const int got = gzread(gzip_.get(), bytes.data(), static_cast<unsigned>(count));
    if (got < 0) fail(path_, "is not a sound gzip file");
    if (static_cast<std::size_t>(got) != count) fail(path_, "ends too early");
    return bytes;
  }

  std::uint32_t read_word() {
    const auto bytes = read(4);
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
           std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
  }

  // Reading past the end is also what makes zlib compare the checksum.
  void expect_end() {
    std::uint8_t byte;
    const int got = gzread(gzip_.get(), &byte, 1);
    if (got < 0) fail(path_, "is not a sound gzip file");
    if (got > 0) fail(path_, "is longer than its header says");
  }

 private:
  path path_;
  GzipFile gzip_;
};

std::vector<std::uint8_t> read_images(const path& file, std::uint32_t count) {
  IdxFile idx(file);
  if (idx.read_word() != kImagesMagic) fail(file, "is not an IDX file of images (wrong magic)");
  if (idx.read_word() != count) fail(file, "should hold " + std::to_string(count) + " images");
  if (idx.read_word() != kSide || idx.read_word() != kSide) fail(file, "images are not 28 x 28");
  auto pixels = idx.read(std::size_t{count} * kSide * kSide);
  idx.expect_end();
  return pixels;
}

std::vector<std::uint8_t> read_labels(const path& file, std::uint32_t count) {
  IdxFile idx(file);
  if (idx.read_word() != kLabelsMagic) fail(file, "is not an IDX file of labels (wrong magic)");
  if (idx.read_word() != count) fail(file, "should hold " + std::to_string(count) + " labels");
  auto labels = idx.read(count);
  idx.expect_end();
  const auto wrong = [](std::uint8_t label) { return label >= kClasses; };
  if (std::any_of(labels.begin(), labels.end(), wrong)) fail(file, "holds a label above 9");
  return labels;
}

LabelledImages read_part(const path& folder, const std::string& prefix, std::uint32_t count) {
  return {read_images(folder / (prefix + "-images-idx3-ubyte.gz"), count),
          read_labels(folder / (prefix + "-labels-idx1-ubyte.gz"), count)};
}

}  // namespace

DataSet load_data_set(const path& folder) {
  return {read_part(folder, "train", 60000), read_part(folder, "t10k", 10000)};
}

}  // namespace fashion_mnist
