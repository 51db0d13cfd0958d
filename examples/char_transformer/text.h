// Reads the text from a folder of plain files. Does not use torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace char_transformer {

struct Text {
  std::vector<std::uint8_t> train;  // characters as numbers below `characters`
  std::vector<std::uint8_t> test;   // pieces spread over the whole text
  int characters = 0;               // number of different characters
};

/// Reads all files of the folder whose names have no extension. Throws std::runtime_error, which names what is missing
/// and how to get it.
Text load_text(const std::filesystem::path& folder);

}  // namespace char_transformer
