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

// IDX files consist of big-endian 32-bit words and data. The third byte of the magic number is the element type (8:
// bytes). Its last byte is the number of dimensions. The sizes of the dimensions follow.
constexpr std::uint32_t kImagesMagic = 0x00000803;
constexpr std::uint32_t kLabelsMagic = 0x00000801;

[[noreturn]] void fail(const path& file, const std::string& what) {
  throw std::runtime_error(file.string() + ": " + what +
                           ". Install the Debian or Ubuntu package dataset-fashion-mnist (apt "
                           "install dataset-fashion-mnist), or use --data for another folder with "
                           "its four .gz files.");
}

struct CloseGzip {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, CloseGzip>;

/// A reader that returns all requested bytes or throws.
class IdxFile {
 public:
  explicit IdxFile(const path& file) : path_(file), gzip_(gzopen(file.c_str(), "rb")) {
    if (!gzip_) fail(path_, std::string("cannot be opened (") + std::strerror(errno) + ")");
  }

  std::vector<std::uint8_t> read(std::size_t count) {
    std::vector<std::uint8_t> bytes(count);
    const int got = gzread(gzip_.get(), bytes.data(), static_cast<unsigned>(count));
    if (got < 0) fail(path_, "the gzip file is damaged");
    if (static_cast<std::size_t>(got) != count) fail(path_, "the file is truncated");
    return bytes;
  }

  std::uint32_t read_word() {
    const auto bytes = read(4);
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
           std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
  }

  // Reading past the end also makes zlib check the checksum.
  void expect_end() {
    std::uint8_t byte;
    const int got = gzread(gzip_.get(), &byte, 1);
    if (got < 0) fail(path_, "the gzip file is damaged");
    if (got > 0) fail(path_, "the file is longer than its header specifies");
  }

 private:
  path path_;
  GzipFile gzip_;
};

std::vector<std::uint8_t> read_images(const path& file, std::uint32_t count) {
  IdxFile idx(file);
  if (idx.read_word() != kImagesMagic) fail(file, "not an IDX file of images (wrong magic number)");
  if (idx.read_word() != count) fail(file, "expected " + std::to_string(count) + " images");
  if (idx.read_word() != kSide || idx.read_word() != kSide) fail(file, "images are not 28 x 28");
  auto pixels = idx.read(std::size_t{count} * kSide * kSide);
  idx.expect_end();
  return pixels;
}

std::vector<std::uint8_t> read_labels(const path& file, std::uint32_t count) {
  IdxFile idx(file);
  if (idx.read_word() != kLabelsMagic) fail(file, "not an IDX file of labels (wrong magic number)");
  if (idx.read_word() != count) fail(file, "expected " + std::to_string(count) + " labels");
  auto labels = idx.read(count);
  idx.expect_end();
  const auto wrong = [](std::uint8_t label) { return label >= kClasses; };
  if (std::any_of(labels.begin(), labels.end(), wrong)) fail(file, "a label is above 9");
  return labels;
}

LabeledImages read_part(const path& folder, const std::string& prefix, std::uint32_t count) {
  return {read_images(folder / (prefix + "-images-idx3-ubyte.gz"), count),
          read_labels(folder / (prefix + "-labels-idx1-ubyte.gz"), count)};
}

}  // namespace

DataSet load_data_set(const path& folder) {
  return {read_part(folder, "train", 60000), read_part(folder, "t10k", 10000)};
}

}  // namespace fashion_mnist
