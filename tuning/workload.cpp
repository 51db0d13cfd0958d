#include "tuning/workload.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "jit/base/text.h"
#include "jit/search/scratch_tensors.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/layout.h"

namespace jitstep::tuning {
namespace {

using jit::str_cat;
using nlohmann::json;

constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
// So that the bytes of all elements are a number of 64 bits.
constexpr std::int64_t kMostInAll = std::int64_t{1} << 48;
constexpr std::int64_t kMostTensors = 1 << 20;
constexpr std::size_t kMostBytes = 64 << 20;  // of a model's file
constexpr int kMostDepth = 16;                // the JSON library is recursive

// A number with an optional unit at its end. 0 if the word is invalid.
std::int64_t count_of(std::string_view word) {
  constexpr std::string_view kUnits = "kKmMgG";
  double count = 0;
  const auto [rest, failure] =
      std::from_chars(word.data(), word.data() + word.size(), count, std::chars_format::fixed);
  const auto left = static_cast<std::size_t>(word.data() + word.size() - rest);
  if (failure != std::errc() || left > 1) return 0;
  if (left == 1) {
    const std::size_t unit = kUnits.find(*rest);
    if (unit == kUnits.npos) return 0;
    const std::size_t power = unit / 2 + 1;
    count *= std::pow(1024.0, static_cast<double>(power));
  }
  const bool whole = count == std::floor(count) && count >= 1 && count <= kMostElements;
  return whole ? static_cast<std::int64_t>(count) : 0;
}

// The file may be a pipe, and may be endless.
std::string content_of(const std::string& path) {
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path))
    throw jit::Error(str_cat("cannot read \"", path, "\". Check the path and its permissions."));
  std::string text;
  std::array<char, 1 << 16> chunk{};
  while (file.read(chunk.data(), chunk.size()) || file.gcount() > 0) {
    text.append(chunk.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > kMostBytes)
      throw jit::Error(str_cat("\"", path, "\" has more than 64 MiB, the limit for a model."));
  }
  if (file.bad()) throw jit::Error(str_cat("cannot read \"", path, "\" to its end."));
  return text;
}

const json* shapes_in(const json& model) {
  if (!model.is_object()) return nullptr;
  if (const auto own = model.find("shapes"); own != model.end()) return &*own;
  for (const auto& [name, part] : model.items())
    if (const json* const found = part.is_object() ? shapes_in(part) : nullptr) return found;
  return nullptr;
}

std::vector<std::int64_t> sizes_of(const json& shape, const std::string& path) {
  const auto bad = [&] {
    return jit::Error(str_cat("invalid shape ", shape.dump().substr(0, 60), " in ", path,
                              ". Write each shape as a list of sizes, as in [768, 768]."));
  };
  if (!shape.is_array()) throw bad();
  std::vector<std::int64_t> sizes;
  for (const json& size : shape) {
    if (!size.is_number_integer() || size < 1 || size > kMostElements) throw bad();
    sizes.push_back(size);
  }
  return sizes;
}

jit::Plan plan_of(const TuningRequest& requested, const std::vector<std::int64_t>& sizes) {
  const jit::ParameterKind kind{.dtype = requested.parameter,
                                .dims = static_cast<int>(sizes.size()),
                                .elements = jit::Shape{sizes, {}}.elements()};
  jit::KernelSpec spec = jit::resolve(requested.options, requested.formats, kind).spec;
  if (requested.gradient) spec.gradient = *requested.gradient;
  return jit::resolve(spec);
}

// The workload with this plan, which is added if there is none.
std::size_t index_of(jit::Plan plan, const TuningRequest& requested, std::vector<Workload>& all) {
  const auto same = [&](const Workload& one) { return one.plan.spec == plan.spec; };
  auto found = std::find_if(all.begin(), all.end(), same);
  if (found == all.end()) {
    const HyperParams numbers =
        plan.at_step(requested.options, 1, requested.formats.seed.value_or(0));
    found = all.insert(all.end(), {std::move(plan), numbers, {}});
  }
  return static_cast<std::size_t>(found - all.begin());
}

}  // namespace

jit::WorkSize Workload::size() const {
  jit::WorkSize all{.elements = 0, .tensors = static_cast<std::int64_t>(shapes.size())};
  for (const auto& sizes : shapes) all.elements += jit::Shape{sizes, {}}.elements();
  return all;
}

std::string Workload::name() const {
  const jit::WorkSize all = size();
  return str_cat(plan.name, ", ",
                 all.tensors == 1 ? "one tensor" : str_cat(all.tensors, " tensors"), " of ",
                 all.elements, " elements");
}

MemoryTraffic moved_by(const Workload& workload) {
  MemoryTraffic moved;
  moved.read = workload.size().elements * jit::bytes_of(workload.plan.spec.gradient);
  moved.both = jit::ScratchTensors::bytes(workload.plan, workload.shapes) - moved.read;
  return moved;
}

double moved_bytes(const Workload& workload) {
  const MemoryTraffic moved = moved_by(workload);
  return 2.0 * static_cast<double>(moved.both) + static_cast<double>(moved.read);
}

Shapes parse_size(const std::string& word) {
  const std::size_t times = word.find('x');
  const std::int64_t tensors =
      times == word.npos ? 1 : count_of(std::string_view(word).substr(0, times));
  const std::int64_t elements =
      count_of(times == word.npos ? word : std::string_view(word).substr(times + 1));
  if (elements == 0 || tensors == 0 || tensors > kMostTensors)
    throw jit::Error(
        str_cat("invalid size \"", word,
                "\". Give the elements of a tensor, as in 4k or 16M, or several tensors, as in "
                "700x2k."));
  return Shapes(static_cast<std::size_t>(tensors), {elements});
}

Shapes read_model(const std::string& path) {
  const std::string text = content_of(path);
  const auto limit_depth = [&](int depth, json::parse_event_t, const json&) {
    if (depth > kMostDepth) throw jit::Error(str_cat(path, " has JSON that is nested too deeply."));
    return true;
  };
  const json model = json::parse(text, limit_depth, false);
  const json* const found = model.is_discarded() ? nullptr : shapes_in(model);
  if (found == nullptr || !found->is_array() || found->empty())
    throw jit::Error(str_cat(path, model.is_discarded() ? " is not valid JSON" : " has no shapes",
                             ". Write {\"shapes\": [[768, 768], [768]]}."));
  Shapes shapes;
  for (const json& shape : *found) shapes.push_back(sizes_of(shape, path));
  return shapes;
}

std::vector<Workload> workloads(const TuningRequest& requested, const Shapes& shapes) {
  std::vector<Workload> all;
  // The index in `all` for each shape.
  std::map<std::vector<std::int64_t>, std::size_t> workload_of;
  std::int64_t elements = 0;
  for (const auto& sizes : shapes) {
    elements += jit::Shape{sizes, {}}.elements();
    if (elements > kMostInAll)
      throw jit::Error("the tensors of a workload can have at most 2^48 elements in all.");
    const auto known = workload_of.find(sizes);
    const std::size_t index = known != workload_of.end()
                                  ? known->second
                                  : index_of(plan_of(requested, sizes), requested, all);
    workload_of.emplace(sizes, index);
    all[index].shapes.push_back(sizes);
  }
  return all;
}

}  // namespace jitstep::tuning
