#include "text.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace char_transformer {
namespace {

// Every tenth piece is for testing, so that both parts have text of every subject and author.
constexpr std::size_t kPiece = 4096, kTested = 10;

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw std::runtime_error(path.string() + ": " + what +
                           ". Install the Debian or Ubuntu package fortunes (apt install "
                           "fortunes), or use --data for another folder of text files whose names "
                           "have no extension.");
}

std::vector<std::filesystem::path> text_files(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.is_regular_file() && !entry.path().has_extension()) files.push_back(entry.path());
  }
  if (error) fail(folder, "cannot be read (" + error.message() + ")");
  std::sort(files.begin(), files.end());
  return files;
}

std::string read_all(const std::filesystem::path& folder) {
  std::string text;
  for (const auto& path : text_files(folder)) {
    std::ifstream file(path, std::ios::binary);
    text.append(std::istreambuf_iterator<char>(file), {});
    if (!file) fail(path, "cannot be read");
  }
  return text;
}

}  // namespace

Text load_text(const std::filesystem::path& folder) {
  const std::string all = read_all(folder);
  if (all.size() < 2 * kPiece * kTested) fail(folder, "the text is too short");
  std::array<bool, 256> occurs{};
  for (const char c : all) occurs[static_cast<std::uint8_t>(c)] = true;
  std::array<std::uint8_t, 256> number{};
  Text text;
  for (std::size_t c = 0; c < 256; ++c) {
    if (occurs[c]) number[c] = static_cast<std::uint8_t>(text.characters++);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool tested = i / kPiece % kTested == kTested - 1;
    (tested ? text.test : text.train).push_back(number[static_cast<std::uint8_t>(all[i])]);
  }
  return text;
}

}  // namespace char_transformer
