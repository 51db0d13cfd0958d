#include "jit/codegen/json_schema.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

using nlohmann::json;
using Problem = std::optional<std::string>;

// Supported keywords, and annotations, which have no effect on validation.
constexpr std::array<std::string_view, 15> kKnown = {"$schema",
                                                     "title",
                                                     "$defs",
                                                     "$ref",
                                                     "type",
                                                     "const",
                                                     "enum",
                                                     "minimum",
                                                     "maximum",
                                                     "minLength",
                                                     "required",
                                                     "properties",
                                                     "additionalProperties",
                                                     "items",
                                                     "description"};

// A value in a message. Long values are shortened.
std::string shown(const json& value) {
  constexpr std::size_t kMost = 40;
  std::string out = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return out.size() <= kMost ? out : out.substr(0, kMost) + "...";
}

bool is_of_type(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  throw Error(str_cat("unknown type \"", type, "\" in a JSON schema"));
}

class Checker {
 public:
  explicit Checker(const json& root) : root_(root) {}

  Problem check(const json& value, const json& schema, const std::string& location) const {
    refuse_unknown(schema);
    if (const auto ref = schema.find("$ref"); ref != schema.end())
      return check(value, root_.at(json::json_pointer(ref->get<std::string>().substr(1))),
                   location);
    if (auto problem = check_scalar(value, schema, location)) return problem;
    if (value.is_object()) return check_object(value, schema, location);
    if (value.is_array()) return check_items(value, schema, location);
    return {};
  }

 private:
  static void refuse_unknown(const json& schema) {
    for (const auto& [word, meaning] : schema.items())
      if (std::find(kKnown.begin(), kKnown.end(), word) == kKnown.end())
        throw Error(str_cat("unknown keyword \"", word, "\" in a JSON schema"));
  }

  static Problem check_scalar(const json& value, const json& schema, const std::string& location) {
    const auto is = [&](const auto&... parts) {
      return str_cat(location.empty() ? "the record" : location, " is ", shown(value), ", ",
                     parts...);
    };
    if (schema.contains("type") && !is_of_type(value, schema.at("type").get<std::string>()))
      return is("not of type ", schema.at("type").get<std::string>());
    if (schema.contains("const") && value != schema.at("const"))
      return is("not ", schema.at("const").dump());
    if (schema.contains("enum")) {
      const json& words = schema.at("enum");
      if (std::find(words.begin(), words.end(), value) == words.end())
        return is("not one of ", joined(words, ", ", [](const json& word) { return word.dump(); }));
    }
    if (value.is_number() && schema.contains("minimum") && value < schema.at("minimum"))
      return is("less than ", schema.at("minimum").dump());
    if (value.is_number() && schema.contains("maximum") && value > schema.at("maximum"))
      return is("more than ", schema.at("maximum").dump());
    if (value.is_string() && schema.contains("minLength") &&
        value.get_ref<const std::string&>().size() < schema.at("minLength").get<std::size_t>())
      return is("shorter than ", schema.at("minLength").dump());
    return {};
  }

  Problem check_object(const json& value, const json& schema, const std::string& location) const {
    const std::string before = location.empty() ? "" : location + ".";
    if (const auto required = schema.find("required"); required != schema.end())
      for (const json& name : *required)
        if (!value.contains(name.get_ref<const std::string&>()))
          return str_cat(before, name.get_ref<const std::string&>(), " is missing");
    const json& known = schema.contains("properties") ? schema.at("properties") : json::object();
    for (const auto& [name, member] : value.items()) {
      if (const auto own = known.find(name); own != known.end()) {
        if (auto problem = check(member, *own, before + name)) return problem;
      } else if (schema.value("additionalProperties", true) == false) {
        return str_cat(before, shown(name), " is unknown");
      }
    }
    return {};
  }

  Problem check_items(const json& value, const json& schema, const std::string& location) const {
    if (!schema.contains("items")) return {};
    for (std::size_t i = 0; i < value.size(); ++i)
      if (auto problem = check(value[i], schema.at("items"), str_cat(location, "[", i, "]")))
        return problem;
    return {};
  }

  const json& root_;
};

}  // namespace

Problem schema_problem(const json& value, const json& schema) {
  return Checker(schema).check(value, schema, "");
}

}  // namespace jitstep::jit
