// Reads Fashion-MNIST: four gzip files in the IDX format. Knows no torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace fashion_mnist {

constexpr std::int64_t kSide = 28;     // pixels
constexpr std::int64_t kClasses = 10;  // kinds of clothing

struct LabelledImages {
  std::vector<std::uint8_t> pixels;  // image after image, row after row
  std::vector<std::uint8_t> labels;
};

struct DataSet {
  LabelledImages train;
  LabelledImages test;
};

/// Reads and checks all four files; throws std::runtime_error that names the file and what to do.
DataSet load_data_set(const std::filesystem::path& folder);

}  // namespace fashion_mnist
