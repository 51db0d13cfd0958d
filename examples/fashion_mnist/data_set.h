// Reads Fashion-MNIST from four gzip files in the IDX format. Does not use torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace fashion_mnist {

constexpr std::int64_t kSide = 28;     // pixels
constexpr std::int64_t kClasses = 10;  // types of clothing

struct LabeledImages {
  std::vector<std::uint8_t> pixels;  // [image][row][column]
  std::vector<std::uint8_t> labels;
};

struct DataSet {
  LabeledImages train;
  LabeledImages test;
};

/// Reads and checks all four files. Throws std::runtime_error, which names the file and how to get it.
DataSet load_data_set(const std::filesystem::path& folder);

}  // namespace fashion_mnist
