// A memory report for people and for programs. Knows no tensor.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "jit/base/text.h"
#include "jit/base/text_table.h"
#include "jitstep/memory_report.h"

namespace jitstep {
namespace {

using nlohmann::json;
using Part = MemoryReport::Part;
using Parameter = MemoryReport::Parameter;
using Kind = MemoryReport::Kind;
using Row = std::vector<std::string>;

constexpr const char* kKinds[] = {"parameters", "gradients",         "state",
                                  "scales",     "beside parameters", "memory"};

const char* name_of(Kind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

bool is_state(const Part& part) { return part.kind > Kind::gradients; }

template <class Parts, class Choice>
std::int64_t sum_of(const Parts& parts, Choice choice) {
  return std::accumulate(
      parts.begin(), parts.end(), std::int64_t{0},
      [&](std::int64_t sum, const Part& part) { return choice(part) ? sum + part.bytes : sum; });
}

std::int64_t bytes_of(const std::vector<Part>& parts, Kind kind) {
  return sum_of(parts, [&](const Part& part) { return part.kind == kind; });
}

std::string count(std::size_t number, const char* what) {
  return jit::text(number, " ", what, number == 1 ? "" : "s");
}

std::string per_element(std::int64_t bytes, std::int64_t elements) {
  return elements == 0 ? "-"
                       : jit::fixed(static_cast<double>(bytes) / static_cast<double>(elements), 4);
}

std::string head(const MemoryReport& report) {
  const auto without = static_cast<std::size_t>(
      std::count_if(report.parameters.begin(), report.parameters.end(),
                    [](const Parameter& parameter) { return !parameter.has_state; }));
  std::string line = jit::text(count(report.parameters.size(), "parameter"), " of ",
                               report.elements(), " elements: ", report.bytes(), " bytes");
  if (without > 0)
    line += jit::text("; ", without, without == 1 ? " has" : " have",
                      " no state, which the first step makes");
  return line + "\n\n";
}

std::string formats_table(const MemoryReport& report) {
  std::vector<Row> rows = {{"", "kept in", "tensors", "bytes", "bytes/element"}};
  for (const Part& part : report.by_format())
    rows.push_back({name_of(part.kind), part.format, jit::text(part.tensors), jit::text(part.bytes),
                    per_element(part.bytes, report.elements())});
  rows.push_back(
      {"all", "", "", jit::text(report.bytes()), per_element(report.bytes(), report.elements())});
  return jit::text_table(rows, {2, 3, 4});
}

// "bfloat16, split16, m int4, v int4".
std::string kept_in(const Parameter& parameter) {
  Row words;
  for (const Part& part : parameter.parts)
    if (part.kind == Kind::parameters || part.kind == Kind::beside) words.push_back(part.format);
  for (const Part& part : parameter.parts)
    if (part.kind == Kind::state) words.push_back(part.name + " " + part.format);
  if (!parameter.has_state) words.push_back("no state yet");
  return jit::joined(words);
}

std::string parameters_table(const MemoryReport& report) {
  std::vector<Row> rows = {{"group", "place", "sizes", "rule", "parameter", "gradient", "state",
                            "bytes/element", "kept in"}};
  for (const Parameter& parameter : report.parameters)
    rows.push_back(
        {jit::text(parameter.group), jit::text(parameter.place),
         "[" + jit::joined(parameter.sizes, ", ", [](auto n) { return jit::text(n); }) + "]",
         parameter.rule, jit::text(bytes_of(parameter.parts, Kind::parameters)),
         jit::text(bytes_of(parameter.parts, Kind::gradients)),
         jit::text(sum_of(parameter.parts, is_state)),
         per_element(parameter.bytes(), parameter.elements), kept_in(parameter)});
  if (!report.others.empty())
    rows.push_back({"-", "-", "", "", "0", "0", jit::text(sum_of(report.others, is_state)), "-",
                    "what belongs to no single parameter"});
  return jit::text_table(rows, {0, 1, 4, 5, 6, 7});
}

json json_of(const Part& part) {
  json out = {{"kind", name_of(part.kind)},
              {"format", part.format},
              {"tensors", part.tensors},
              {"bytes", part.bytes}};
  if (!part.name.empty()) out["name"] = part.name;
  return out;
}

json json_of(const std::vector<Part>& parts) {
  json all = json::array();
  for (const Part& part : parts) all.push_back(json_of(part));
  return all;
}

json json_of(const Parameter& parameter) {
  return {{"group", parameter.group},   {"place", parameter.place},
          {"sizes", parameter.sizes},   {"elements", parameter.elements},
          {"rule", parameter.rule},     {"has_state", parameter.has_state},
          {"bytes", parameter.bytes()}, {"parts", json_of(parameter.parts)}};
}

constexpr auto kEvery = [](const Part&) { return true; };

}  // namespace

std::int64_t MemoryReport::Parameter::bytes() const { return sum_of(parts, kEvery); }

std::vector<Part> MemoryReport::by_format() const {
  std::map<std::pair<Kind, std::string>, Part> sums;
  const auto add = [&](const std::vector<Part>& parts) {
    for (const Part& part : parts) {
      Part& sum = sums[{part.kind, part.format}];
      sum.tensors += part.tensors, sum.bytes += part.bytes;
    }
  };
  for (const Parameter& parameter : parameters) add(parameter.parts);
  add(others);
  std::vector<Part> formats;
  for (auto& [what, sum] : sums)
    formats.push_back({what.first, "", what.second, sum.tensors, sum.bytes});
  return formats;
}

std::int64_t MemoryReport::elements() const {
  return std::accumulate(
      parameters.begin(), parameters.end(), std::int64_t{0},
      [](std::int64_t sum, const Parameter& parameter) { return sum + parameter.elements; });
}

std::int64_t MemoryReport::bytes() const { return sum_of(by_format(), kEvery); }

std::int64_t MemoryReport::state_bytes() const { return sum_of(by_format(), is_state); }

std::string MemoryReport::text() const {
  return head(*this) + formats_table(*this) + "\n" + parameters_table(*this);
}

std::string MemoryReport::json() const {
  nlohmann::json all = nlohmann::json::array();
  for (const Parameter& parameter : parameters) all.push_back(json_of(parameter));
  const nlohmann::json out = {
      {"elements", elements()},          {"bytes", bytes()},  {"state_bytes", state_bytes()},
      {"formats", json_of(by_format())}, {"parameters", all}, {"others", json_of(others)}};
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace jitstep
