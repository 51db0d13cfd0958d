// A memory report as text and as JSON. Independent of torch.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "jit/base/text.h"
#include "jit/base/text_table.h"
#include "jitstep/reports.h"

namespace jitstep {
namespace {

using nlohmann::json;
using Entry = MemoryReport::Entry;
using Parameter = MemoryReport::Parameter;
using Kind = MemoryReport::Kind;
using Row = std::vector<std::string>;

constexpr const char* kKinds[] = {"parameters", "gradients", "state",
                                  "scales",     "residual",  "auxiliary state"};

const char* name_of(Kind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

bool is_state(const Entry& entry) { return entry.kind > Kind::gradients; }

template <class Entries, class Choice>
std::int64_t sum_of(const Entries& entries, Choice choice) {
  return std::accumulate(entries.begin(), entries.end(), std::int64_t{0},
                         [&](std::int64_t sum, const Entry& entry) {
                           return choice(entry) ? sum + entry.bytes : sum;
                         });
}

std::int64_t bytes_of(const std::vector<Entry>& entries, Kind kind) {
  return sum_of(entries, [&](const Entry& entry) { return entry.kind == kind; });
}

std::string per_element(std::int64_t bytes, std::int64_t elements) {
  return elements == 0 ? "-"
                       : jit::fixed(static_cast<double>(bytes) / static_cast<double>(elements), 4);
}

std::string head(const MemoryReport& report) {
  const auto without = static_cast<std::size_t>(
      std::count_if(report.parameters.begin(), report.parameters.end(),
                    [](const Parameter& parameter) { return !parameter.has_state; }));
  std::string line = jit::str_cat(jit::counted(report.parameters.size(), "parameter"), " of ",
                                  report.elements(), " elements: ", report.bytes(), " bytes");
  if (without > 0)
    line += jit::str_cat("; ", without, without == 1 ? " has" : " have",
                         " no state yet, which the first step creates");
  return line + "\n\n";
}

std::string formats_table(const MemoryReport& report) {
  std::vector<Row> rows = {{"", "format", "tensors", "bytes", "bytes/element"}};
  for (const Entry& entry : report.by_format())
    rows.push_back({name_of(entry.kind), entry.format, jit::str_cat(entry.tensors),
                    jit::str_cat(entry.bytes), per_element(entry.bytes, report.elements())});
  rows.push_back({"all", "", "", jit::str_cat(report.bytes()),
                  per_element(report.bytes(), report.elements())});
  return jit::text_table(rows, {2, 3, 4});
}

// "bfloat16, split16, m int4, v int4".
std::string formats_of(const Parameter& parameter) {
  Row formats;
  for (const Entry& entry : parameter.entries)
    if (entry.kind == Kind::parameters || entry.kind == Kind::residual)
      formats.push_back(entry.format);
  for (const Entry& entry : parameter.entries)
    if (entry.kind == Kind::state) formats.push_back(entry.name + " " + entry.format);
  if (!parameter.has_state) formats.push_back("no state yet");
  return jit::joined(formats);
}

std::string parameters_table(const MemoryReport& report) {
  std::vector<Row> rows = {{"group", "index", "sizes", "rule", "parameter", "gradient", "state",
                            "bytes/element", "formats"}};
  for (const Parameter& parameter : report.parameters)
    rows.push_back(
        {jit::str_cat(parameter.group), jit::str_cat(parameter.index),
         "[" + jit::joined(parameter.sizes, ", ", [](auto n) { return jit::str_cat(n); }) + "]",
         parameter.rule, jit::str_cat(bytes_of(parameter.entries, Kind::parameters)),
         jit::str_cat(bytes_of(parameter.entries, Kind::gradients)),
         jit::str_cat(sum_of(parameter.entries, is_state)),
         per_element(parameter.bytes(), parameter.elements), formats_of(parameter)});
  if (!report.others.empty())
    rows.push_back({"-", "-", "", "", "0", "0", jit::str_cat(sum_of(report.others, is_state)), "-",
                    "of no single parameter"});
  return jit::text_table(rows, {0, 1, 4, 5, 6, 7});
}

json json_of(const Entry& entry) {
  json out = {{"kind", name_of(entry.kind)},
              {"format", entry.format},
              {"tensors", entry.tensors},
              {"bytes", entry.bytes}};
  if (!entry.name.empty()) out["name"] = entry.name;
  return out;
}

json json_of(const std::vector<Entry>& entries) {
  json all = json::array();
  for (const Entry& entry : entries) all.push_back(json_of(entry));
  return all;
}

json json_of(const Parameter& parameter) {
  return {{"group", parameter.group},   {"index", parameter.index},
          {"sizes", parameter.sizes},   {"elements", parameter.elements},
          {"rule", parameter.rule},     {"has_state", parameter.has_state},
          {"bytes", parameter.bytes()}, {"entries", json_of(parameter.entries)}};
}

constexpr auto kEvery = [](const Entry&) { return true; };

}  // namespace

std::int64_t MemoryReport::Parameter::bytes() const { return sum_of(entries, kEvery); }

std::vector<Entry> MemoryReport::by_format() const {
  std::map<std::pair<Kind, std::string>, Entry> sums;
  const auto add = [&](const std::vector<Entry>& entries) {
    for (const Entry& entry : entries) {
      Entry& sum = sums[{entry.kind, entry.format}];
      sum.tensors += entry.tensors, sum.bytes += entry.bytes;
    }
  };
  for (const Parameter& parameter : parameters) add(parameter.entries);
  add(others);
  std::vector<Entry> formats;
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
