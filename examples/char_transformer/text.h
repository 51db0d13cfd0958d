// Reads the text: a folder of plain files. Knows no torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace char_transformer {

struct Text {
  std::vector<std::uint8_t> train;  // characters as numbers below `characters`
  std::vector<std::uint8_t> test;   // of places spread over the whole
  int characters = 0;               // how many different ones there are
};

/// Reads all files of the folder whose names have no extension. Throws std::runtime_error that says what is missing and
/// what to do.
Text load_text(const std::filesystem::path& folder);

}  // namespace char_transformer
