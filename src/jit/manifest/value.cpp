#include "jitstep/jit/value.h"

#include <charconv>
#include <cmath>

#include "jit/base/numbers.h"

namespace jitstep::jit {
namespace {

bool same_numbers(const Value::Numbers& a, const Value::Numbers& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same_number(a[i], b[i])) return false;
  }
  return true;
}

}  // namespace

bool Value::operator==(const Value& other) const {
  if (is_number() && other.is_number()) return same_number(number(), other.number());
  if (is_numbers() && other.is_numbers()) return same_numbers(numbers(), other.numbers());
  return held_ == other.held_;
}

std::string to_string(double number) {
  if (std::isnan(number)) return "nan";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  return std::string(buffer, end);
}

std::string to_string(const Value& value) {
  if (value.is_null()) return "null";
  if (value.is_bool()) return value.boolean() ? "true" : "false";
  if (value.is_number()) return to_string(value.number());
  if (value.is_choice()) return value.choice();
  std::string out = "[";
  for (const double x : value.numbers()) {
    if (out.size() > 1) out += ", ";
    out += std::isnan(x) ? "null" : to_string(x);
  }
  return out + "]";
}

std::string to_string(const NamedValues& values) {
  std::string out;
  for (const auto& [name, value] : values) {
    if (!out.empty()) out += ", ";
    out += name + "=" + to_string(value);
  }
  return out;
}

}  // namespace jitstep::jit
