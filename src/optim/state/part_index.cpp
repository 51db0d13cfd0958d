#include "optim/state/part_index.h"

#include <torch/types.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>

#include "jit/base/text.h"

namespace jitstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kSchema = 1;
// More would be a damaged file. An element has less than 64 bytes of state, so that offsets fit into 64 bits.
constexpr std::int64_t kMostElements = std::numeric_limits<std::int64_t>::max() / 64;

PartedState state_of(const json& text, int parts) {
  PartedState state;
  text.at("elements").get_to(state.elements);
  text.at("grain").get_to(state.grain);
  text.at("buffers").get_to(state.buffers);
  const auto is_negative = [](std::int64_t n) { return n < 0; };
  const auto whole = std::count_if(state.elements.begin(), state.elements.end(),
                                   [](std::int64_t n) { return n > 0; });
  std::int64_t first = 0;
  bool valid = std::ssize(state.elements) == parts && state.grain >= 0 &&
               state.grain <= kMostElements &&
               std::none_of(state.elements.begin(), state.elements.end(), is_negative) &&
               (state.grain > 0 || whole <= 1);
  for (const std::int64_t count : state.elements) {
    valid = valid && (count == 0 || state.grain == 0 || first % state.grain == 0) &&
            !__builtin_add_overflow(first, count, &first) && first <= kMostElements;
  }
  for (const auto& [name, bytes] : state.buffers)
    valid = valid && (state.grain == 0 ? bytes == 0 : bytes > 0 && bytes <= 64 * state.grain);
  if (!valid) throw std::runtime_error("its parts do not fit together");
  return state;
}

// Removes files that save_parts() wrote. `removes`: by the name of their save, which is empty for an unfinished index.
template <class Removes>
void remove_files(const std::string& folder, const Removes& removes) noexcept {
  try {
    const std::regex ours(
        R"(([0-9a-f]{16})-\d+-of-\d+\.pt(\.[0-9a-f]+\.part)?|index\.pt\.[0-9a-f]+\.part)");
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) {
      std::smatch match;
      const std::string name = entry.path().filename();
      if (std::regex_match(name, match, ours) && removes(match[1].str()) &&
          entry.symlink_status().type() == fs::file_type::regular)
        files.push_back(entry.path());
    }
    std::error_code ignored;
    for (const fs::path& file : files) fs::remove(file, ignored);
  } catch (const std::exception&) {  // the files only need space
  }
}

}  // namespace

std::string PartId::file_name() const {
  return jit::str_cat(save, "-", number, "-of-", count, ".pt");
}

std::string name_of_save(std::uint64_t number) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string name(16, '0');
  for (auto digit = name.rbegin(); digit != name.rend(); ++digit, number >>= 4)
    *digit = kDigits[number & 15];
  return name;
}

std::string PartIndex::state_name(std::size_t group, std::size_t index) {
  return jit::str_cat(group, ".", index);
}

std::string to_text(const PartIndex& index) {
  json states = json::object();
  for (const auto& [name, state] : index.states)
    states[name] = {
        {"elements", state.elements}, {"grain", state.grain}, {"buffers", state.buffers}};
  return json{{"schema", kSchema}, {"save", index.save}, {"parts", index.parts}, {"states", states}}
      .dump();
}

PartIndex parse_part_index(const std::string& text) {
  try {
    const json all = json::parse(text);
    const auto schema = all.at("schema").get<std::int64_t>();
    TORCH_CHECK(schema <= kSchema, "jitstep: the checkpoint has an index of schema ", schema,
                ", but this version of jitstep reads at most ", kSchema,
                ". Update jitstep to load it.");
    PartIndex index;
    all.at("save").get_to(index.save);
    all.at("parts").get_to(index.parts);
    // The name becomes that of a file.
    if (!std::regex_match(index.save, std::regex("[0-9a-f]{16}")) || index.parts < 1 ||
        index.parts > PartIndex::kMostParts)
      throw std::runtime_error("it does not name its parts");
    for (const auto& [name, state] : all.at("states").items())
      index.states.emplace(name, state_of(state, index.parts));
    return index;
  } catch (const c10::Error&) {
    throw;
  } catch (const std::exception& error) {
    TORCH_CHECK(false, "jitstep: the index of the checkpoint is damaged: ", error.what(),
                ". Save the optimizer again.");
  }
}

void remove_other_parts(const std::string& folder, const std::string& save) noexcept {
  remove_files(folder, [&](const std::string& other) { return other != save; });
}

void remove_parts(const std::string& folder, const std::string& save) noexcept {
  remove_files(folder, [&](const std::string& other) { return other == save; });
}

}  // namespace jitstep
