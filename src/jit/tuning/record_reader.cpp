// Reads a line of a file of tuning records, and checks each field. tuning/record.schema.json states the same rules, and
// tests/tuning/record_schema_test.py compares both.
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>

#include "jit/base/enum_names.h"
#include "jit/base/text.h"
#include "jit/tuning/tuning_record.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostElements = std::int64_t{1} << 48;
constexpr int kMostUnits = 1'000'000;

// A value in a message. Long values are shortened.
std::string shown(const json& value) {
  constexpr std::size_t kMost = 40;
  std::string out = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return out.size() <= kMost ? out : out.substr(0, kMost) + "...";
}

std::string quoted(const char* name) { return str_cat("\"", name, "\""); }

// Reads the fields of a JSON object. Every function throws an Error that names the field by its path.
class Fields {
 public:
  // `path`: of the object in the line. Empty: the line itself.
  Fields(const json& object, const std::string& path)
      : object_(object), prefix_(path.empty() ? "" : path + ".") {
    if (!object.is_object()) fail(path.empty() ? "the record" : path, object, "not of type object");
  }

  std::string text(const char* name, std::size_t shortest = 1) {
    const json& value = typed(name, "string", &json::is_string);
    auto text = value.get<std::string>();
    if (text.size() < shortest) fail(prefix_ + name, value, str_cat("shorter than ", shortest));
    return text;
  }

  bool boolean(const char* name) { return typed(name, "boolean", &json::is_boolean).get<bool>(); }

  template <class Number>
  Number number(const char* name, Number least, Number most) {
    const json& value = std::is_integral_v<Number>
                            ? typed(name, "integer", &json::is_number_integer)
                            : typed(name, "number", &json::is_number);
    // The limits are exact as doubles. An unsigned value of JSON may not fit into Number.
    const auto size = value.get<double>();
    if (size < static_cast<double>(least))
      fail(prefix_ + name, value, "less than " + json(least).dump());
    if (size > static_cast<double>(most))
      fail(prefix_ + name, value, "more than " + json(most).dump());
    return value.get<Number>();
  }

  template <class Enum, std::size_t N>
  Enum one_of(const char* name, const std::array<const char*, N>& names) {
    const json& value = field(name);
    const auto found =
        value.is_string() ? value_in<Enum>(names, value.get<std::string>()) : std::optional<Enum>();
    if (!found) fail(prefix_ + name, value, "not one of " + joined(names, ", ", quoted));
    return *found;
  }

  Target target(const char* name) {
    const std::string word = text(name);
    try {
      return parse_target(word);
    } catch (const Error& error) {
      throw Error(str_cat(prefix_, name, ": ", error.what()));
    }
  }

  Fields object(const char* name) { return {field(name), prefix_ + name}; }

  std::vector<Fields> objects(const char* name) {
    const json& all = typed(name, "array", &json::is_array);
    std::vector<Fields> out;
    for (std::size_t i = 0; i < all.size(); ++i)
      out.emplace_back(all[i], str_cat(prefix_, name, "[", i, "]"));
    return out;
  }

  bool has(const char* name) const { return object_.contains(name); }

  // Call it after the last field.
  void refuse_unread() const {
    for (const auto& [name, value] : object_.items())
      if (!read_.contains(name)) throw Error(str_cat(prefix_, shown(name), " is unknown"));
  }

 private:
  [[noreturn]] static void fail(const std::string& path, const json& value,
                                const std::string& problem) {
    throw Error(str_cat(path, " is ", shown(value), ", ", problem));
  }

  const json& field(const char* name) {
    const auto found = object_.find(name);
    if (found == object_.end()) throw Error(str_cat(prefix_, name, " is missing"));
    read_.insert(name);
    return *found;
  }

  const json& typed(const char* name, const char* type, bool (json::*is_type)() const noexcept) {
    const json& value = field(name);
    if (!(value.*is_type)()) fail(prefix_ + name, value, str_cat("not of type ", type));
    return value;
  }

  const json& object_;
  std::string prefix_;
  std::set<std::string> read_ = {};
};

KernelConfig config_of(Fields at) {
  KernelConfig config;
  for (const ConfigField& field : config_fields()) {
    const bool absent = field.cpu_only && !at.has(field.name);
    config.*field.member = absent ? 0 : at.number(field.name, field.cpu_only ? 0 : 1, field.most);
  }
  at.refuse_unread();
  return config;
}

Trial trial_of(Fields at) {
  constexpr double kMost = 1e9;
  Trial trial{.config = config_of(at.object("configuration")),
              .status = at.one_of<TrialStatus>("status", kTrialStatusNames)};
  if (at.has("detail")) trial.detail = at.text("detail", 0);
  TrialTimes& times = trial.times;
  if (at.has("rounds")) times.rounds = at.number("rounds", 0, 1'000'000);
  for (const auto& [name, member] : kTrialTimeFields)
    if (at.has(name)) times.*member = at.number(name, 0.0, kMost);
  at.refuse_unread();
  return trial;
}

Hardware hardware_of(Fields at) {
  Hardware hardware{.target = at.target("target"),
                    .name = at.text("name", 0),
                    .architecture = at.text("architecture"),
                    .units = at.number("units", 1, kMostUnits)};
  if (at.has("processors")) hardware.processors = at.number("processors", 1, kMostUnits);
  hardware.cache_bytes = at.number("cache_bytes", std::int64_t{0}, std::int64_t{1} << 40);
  hardware.bandwidth = at.number("bandwidth", 0.0, 1e15);
  at.refuse_unread();
  return hardware;
}

RecordVersions versions_of(Fields at) {
  RecordVersions versions{.jitstep = at.text("jitstep"),
                          .compiler = at.text("compiler", 0),
                          .templates = at.text("templates")};
  at.refuse_unread();
  return versions;
}

TuningRecord record_of(Fields at) {
  constexpr double kMostGain = 1e6;
  at.number("schema", kRecordSchema, kRecordSchema);
  TuningRecord record{.kernel = at.text("kernel"),
                      .spec = at.text("spec"),
                      .size = {.elements = at.number("elements", std::int64_t{1}, kMostElements),
                               .tensors = at.number("tensors", std::int64_t{1}, kMostElements)},
                      .hardware = hardware_of(at.object("hardware")),
                      .versions = versions_of(at.object("versions")),
                      .strategy = at.text("strategy"),
                      .date = at.text("date", 10),
                      .complete = at.boolean("complete"),
                      .outcome = at.one_of<Outcome>("outcome", kOutcomeNames),
                      .config = config_of(at.object("configuration")),
                      .gain = at.number("gain", 0.0, kMostGain),
                      .spread = at.number("spread", 0.0, kMostGain)};
  for (const Fields& trial : at.objects("trials")) record.trials.push_back(trial_of(trial));
  at.refuse_unread();
  return record;
}

// The JSON library parses and frees nested values recursively, so that unlimited depth would overflow the stack.
json parsed(const std::string& line) {
  constexpr int kDeepest = 16;
  return json::parse(
      line,
      [](int depth, json::parse_event_t, const json&) {
        if (depth > kDeepest) throw Error("the JSON is nested too deeply");
        return true;
      },
      true);
}

}  // namespace

RecordLine read_record(const std::string& line) {
  try {
    const json at = parsed(line);
    if (at.is_object() && at.contains("schema") && at.at("schema").is_number_integer() &&
        at.at("schema") > kRecordSchema)
      return {.newer = true,
              .problem = str_cat("schema ", at.at("schema").dump(), " is newer than ",
                                 kRecordSchema, ". Update jitstep to use this record.")};
    return {.record = record_of({at, ""})};
  } catch (const json::exception&) {
    return {.problem = "the line is not valid JSON, or truncated"};
  } catch (const Error& error) {
    return {.problem = error.what()};
  }
}

}  // namespace jitstep::jit
