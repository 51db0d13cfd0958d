// The index of a checkpoint in a folder: which parts it has, and what they contain. STATE_FORMAT.md has the format.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace jitstep {

/// Names one file of a checkpoint in a folder.
struct PartId {
  std::string save;  // 16 hexadecimal digits, of the call that wrote it
  int number = 0;
  int count = 1;  // of parts

  /// The name in the folder: "0123456789abcdef-3-of-8.pt".
  std::string file_name() const;
};

inline constexpr const char* kIndexFile = "index.pt";

/// The name of a new save, by the system's random numbers.
std::string name_of_save(std::uint64_t number);

/// Where the tensors of one parameter's state are.
struct PartedState {
  std::vector<std::int64_t> elements;  // in each part. Elements of parts follow in storage order
  std::int64_t grain = 0;              // parts begin at multiples of it; 0: one part has everything
  /// Bytes of `grain` elements, by name: "codes_m", "meta_m", "extra", "memory_row_0". 0 if `grain` is.
  std::map<std::string, std::int64_t> buffers;
};

/// All tensors that are in parts.
struct PartIndex {
  static constexpr int kMostParts = 1 << 20;

  std::string save;
  int parts = 1;
  std::map<std::string, PartedState> states;  // by state_name()

  /// "0.12": parameter 12 of group 0.
  static std::string state_name(std::size_t group, std::size_t index);
};

std::string to_text(const PartIndex& index);
/// Throws a c10::Error for any other text, and for a newer schema.
PartIndex parse_part_index(const std::string& text);

/// Removes the files of other saves, complete or not, from a folder. Ignores failures and other files.
void remove_other_parts(const std::string& folder, const std::string& save) noexcept;

/// Removes the files of one save.
void remove_parts(const std::string& folder, const std::string& save) noexcept;

}  // namespace jitstep
