#include "jit/codegen/spec_text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "jit/base/closest.h"
#include "jit/base/text.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

using nlohmann::json;
using Kind = Manifest::Kind;

// Deeper than any valid text. Bounds the recursion that prints a text in a message.
constexpr int kMaxDepth = 16;

// A text to parse: its name in messages, and how to write it.
struct JsonText {
  const char* what;
  const char* fix;
};
constexpr JsonText kSpec = {"the optimizer's spec",
                            R"(Use a form such as {"rule": "adamw", "state": "int8"}.)"};
constexpr JsonText kCodec = {"the codec", R"(Use a form such as {"codec": "int8", "block": 128}.)"};
constexpr JsonText kArchived = {"the formats in the checkpoint", "Save the optimizer again."};

// The mistake that the parser found. `byte` is its position, counted from 1.
std::string mistake_at(const std::string& json_text, std::size_t byte) {
  constexpr std::size_t kShown = 24;
  if (byte == 0 || byte > json_text.size()) return "it ends too early";
  const json rest = json_text.substr(byte - 1, kShown);
  return str_cat("it has ", rest.dump(-1, ' ', true, json::error_handler_t::replace),
                 " at character ", byte);
}

json parse(const std::string& json_text, const JsonText& form) {
  const char* const what = form.what;
  std::vector<std::set<std::string>> keys;  // of the open objects
  const auto holds = [&](int depth, json::parse_event_t event, const json& read) {
    if (depth > kMaxDepth) throw Error(str_cat(what, " is nested too deeply"));
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(read.get<std::string>()).second)
      throw Error(str_cat(what, " has ", read.dump(), " twice. Keep one."));
    return true;
  };
  try {
    return json::parse(json_text, holds);
  } catch (const json::parse_error& error) {
    throw Error(
        str_cat(what, " is not valid JSON: ", mistake_at(json_text, error.byte), ". ", form.fix));
  } catch (const json::exception& error) {  // "[...] number overflow parsing '1e999'"
    const std::string message = error.what();
    throw Error(str_cat(form.what, " is not valid JSON: the number",
                        message.substr(message.rfind(' ')), " is too large. ", form.fix));
  }
}

// A codec's name may be any text, also invalid UTF-8, which `replace` handles.
std::string written(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

[[noreturn]] void wrong_type(const std::string& what, const char* expected, const json& found) {
  throw Error(str_cat(what, " must be ", expected, ", not ", written(found)));
}

void check_keys(const json& object, const char* what, const std::vector<std::string>& known) {
  for (const auto& [key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw Error(str_cat(what, " has no \"", key, "\"", did_you_mean(key, known),
                          ". Keys: ", joined(known)));
}

std::string read_string(const json& value, const std::string& what) {
  if (!value.is_string()) wrong_type(what, "a string", value);
  return value.get<std::string>();
}

Value to_value(const json& value, const std::string& what) {
  if (value.is_null()) return {};
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) wrong_type(what, "null, a boolean, a number, a string or numbers", value);
  Value::Numbers numbers;
  for (const json& one : value) {
    if (!one.is_number() && !one.is_null()) wrong_type(what, "a list of numbers", value);
    numbers.push_back(one.is_null() ? std::numeric_limits<double>::quiet_NaN() : one.get<double>());
  }
  return numbers;
}

CodecChoice to_codec(const json& value) {
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_object() || !value.contains("codec"))
    wrong_type("a codec", R"(a name or an object such as {"codec": "int8", "block": 128})", value);
  CodecChoice choice{read_string(value["codec"], "\"codec\"")};
  for (const auto& [name, option] : value.items())
    if (name != "codec") choice.options[name] = to_value(option, "\"" + name + "\" of a codec");
  return choice;
}

json from_codec(const CodecChoice& choice) {
  json object = {{"codec", choice.name}};
  for (const auto& [name, value] : choice.options) {
    if (value.is_bool()) object[name] = value.boolean();
    if (value.is_number()) object[name] = value.number();
    if (value.is_choice()) object[name] = value.choice();
  }
  return object;
}

std::int64_t read_integer(const json& value, const std::string& what) {
  constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();
  const bool too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > kLargest;
  if (!value.is_number_integer() || too_large) wrong_type(what, "an integer below 2^63", value);
  return value.get<std::int64_t>();
}

std::uint64_t read_seed(const json& value) {
  if (!value.is_number_unsigned()) wrong_type("\"seed\"", "an integer from 0 to 2^64 - 1", value);
  return value.get<std::uint64_t>();
}

void read_state(const json& state, Formats& formats) {
  if (!state.is_object() || state.contains("codec")) {
    formats.state = to_codec(state);
    return;
  }
  for (const auto& [slot, codec] : state.items()) formats.slots[slot] = to_codec(codec);
}

void read_formats(const json& spec, Formats& formats) {
  if (spec.contains("state")) read_state(spec["state"], formats);
  if (spec.contains("weights")) formats.weights = read_string(spec["weights"], "\"weights\"");
  if (spec.contains("seed")) formats.seed = read_seed(spec["seed"]);
  if (spec.contains("min_quantized_size"))
    formats.min_quantized_size = read_integer(spec["min_quantized_size"], "\"min_quantized_size\"");
}

std::string names_of_rules() {
  std::string list;
  for (const auto& name : default_catalog().names(Kind::rule))
    list += (list.empty() ? "" : ", ") + name;
  return list;
}

}  // namespace

SpecText parse_spec(const std::string& json_text) {
  const json spec = parse(json_text, kSpec);
  if (!spec.is_object())
    wrong_type("the optimizer's spec", R"(an object such as {"rule": "adamw"})", spec);
  check_keys(spec, "the optimizer's spec",
             {"rule", "options", "state", "weights", "seed", "min_quantized_size"});
  if (!spec.contains("rule"))
    throw Error("the optimizer's spec has no \"rule\". Known rules: " + names_of_rules());
  SpecText out{read_string(spec["rule"], "\"rule\""), {}, {}};
  const Manifest& rule = default_catalog().rule(out.rule);
  if (spec.contains("options")) {
    if (!spec["options"].is_object()) wrong_type("\"options\"", "an object", spec["options"]);
    for (const auto& [name, value] : spec["options"].items())
      out.options[name] = to_value(value, rule.name + ": the option \"" + name + "\"");
  }
  read_formats(spec, out.formats);
  return out;
}

CodecChoice parse_codec(const std::string& text) {
  if (text.find('{') == text.npos) return {text};
  return to_codec(parse(text, kCodec));
}

std::string to_json(const CodecChoice& codec) { return written(from_codec(codec)); }

std::string to_json(const Formats& formats) {
  json out = json::object();
  if (formats.state) out["state"] = from_codec(*formats.state);
  for (const auto& [slot, codec] : formats.slots) out["slots"][slot] = from_codec(codec);
  if (formats.weights) out["weights"] = *formats.weights;
  if (formats.seed) out["seed"] = *formats.seed;
  if (formats.min_quantized_size) out["min_quantized_size"] = *formats.min_quantized_size;
  return written(out);
}

Formats formats_from_json(const std::string& text) {
  const json in = parse(text, kArchived);
  Formats formats;
  read_formats(in, formats);
  if (in.contains("slots")) read_state(in["slots"], formats);
  return formats;
}

}  // namespace jitstep::jit
