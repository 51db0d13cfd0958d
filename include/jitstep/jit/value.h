// The value of one option of a rule or codec, as users set it, manifests declare it and specs store it. The dtypes of
// parameters and gradients.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// Null, a boolean, a number, a choice by name, or several numbers (with NaN for null).
class JITSTEP_API Value {
 public:
  /// Several numbers, such as betas.
  using Numbers = std::vector<double>;

  Value() = default;
  /// Converts implicitly. Integers become doubles.
  Value(std::nullptr_t) {}
  Value(bool x) : held_(x) {}
  Value(int x) : held_(static_cast<double>(x)) {}
  Value(double x) : held_(x) {}
  Value(const char* x) : held_(std::string(x)) {}
  /// A template, so that {{0.8, 0.9}} means two numbers. A std::string could also be made from two such values.
  template <class Text,
            class = std::enable_if_t<std::is_same_v<std::remove_cvref_t<Text>, std::string>>>
  Value(Text&& x) : held_(std::forward<Text>(x)) {}
  Value(Numbers x) : held_(std::move(x)) {}

  /// The type of the value.
  bool is_null() const { return std::holds_alternative<std::monostate>(held_); }
  bool is_bool() const { return std::holds_alternative<bool>(held_); }
  bool is_number() const { return std::holds_alternative<double>(held_); }
  bool is_choice() const { return std::holds_alternative<std::string>(held_); }
  bool is_numbers() const { return std::holds_alternative<Numbers>(held_); }

  /// The value. Another type than the stored one throws std::bad_variant_access.
  bool boolean() const { return std::get<bool>(held_); }
  double number() const { return std::get<double>(held_); }
  const std::string& choice() const { return std::get<std::string>(held_); }
  const Numbers& numbers() const { return std::get<Numbers>(held_); }

  /// True if types and values are equal. NaN, which stands for null among numbers, equals itself.
  bool operator==(const Value& other) const;

 private:
  std::variant<std::monostate, bool, double, std::string, Numbers> held_;
};

/// "null", "true", "0.001", "before", "[0.9, 0.999]". The shortest text that parses to the same value.
JITSTEP_API std::string to_string(const Value& value);
JITSTEP_API std::string to_string(double number);

/// Values by option name.
using NamedValues = std::map<std::string, Value, std::less<>>;

/// "amsgrad=false, decay=before".
JITSTEP_API std::string to_string(const NamedValues& values);

/// The dtypes of parameters and gradients.
enum class Dtype { float64, float32, bfloat16, float16 };

/// "float64, float32, bfloat16 or float16", for messages.
inline constexpr std::string_view kDtypeList = "float64, float32, bfloat16 or float16";

/// "float32" and so on.
JITSTEP_API std::string to_string(Dtype dtype);
/// Inverse of to_string(). Any other text throws an Error.
JITSTEP_API Dtype parse_dtype(std::string_view name);
/// Bytes of one element.
JITSTEP_API int bytes_of(Dtype dtype);
/// Bytes of the arithmetic type, `real`: 8 for float64 parameters, else 4.
JITSTEP_API int real_bytes(Dtype parameter);
/// Its class in lang/formats.cuh: "jitstep::BFloat16".
JITSTEP_API std::string template_type(Dtype dtype);

}  // namespace jitstep::jit
