// Options: the fields of Hyper, Flags and a codec's Options.
#include <algorithm>
#include <limits>

#include "jit/base/text.h"
#include "jit/manifest/manifest_cursor.h"
#include "jit/manifest/manifest_fields.h"
#include "jit/manifest/manifest_notes.h"
#include "jit/manifest/reserved_names.h"
#include "jitstep/hyper_params.h"

namespace jitstep::jit {
namespace {

constexpr std::string_view kAtConstruction = "at construction:";
constexpr std::string_view kSameInGroups = "same in all groups";

Value read_braced(Cursor& cursor, int count) {
  const auto expect = [&, all = counted(count, "number")](const char* sign) {
    if (!cursor.take(sign)) cursor.fail(str_cat("`", sign, "` of a list of ", all));
  };
  Value::Numbers numbers;
  cursor.expect("{");
  for (int i = 0; i < count; ++i) {
    if (i > 0) expect(",");
    const bool null = cursor.take_word("null");
    numbers.push_back(null ? std::numeric_limits<double>::quiet_NaN() : cursor.number());
  }
  expect("}");
  return numbers;
}

// What can be in place of a type that is not one of numbers.
std::string number_types(Cursor& cursor) {
  const auto begins = [&](const char* type) { return begins_with_word(cursor.rest(), type); };
  if (begins("int")) return "double with the note `integer`";
  if (begins("bool")) return "a type of numbers (a bool belongs to `struct Flags`)";
  return "double, Numbers<N>, Nullable or List";
}

void read_number_type(Cursor& cursor, Option& option) {
  if (cursor.take_word("double")) return;
  if (cursor.take_word("Nullable")) {
    option.type = Option::Type::nullable;
  } else if (cursor.take_word("List")) {
    option.type = Option::Type::list;
  } else if (cursor.take_word("Numbers")) {
    option.type = Option::Type::numbers;
    cursor.expect("<");
    option.count = cursor.integer(1, kMaxRuleHyper);
    cursor.expect(">");
  } else {
    cursor.fail(number_types(cursor));
  }
}

Value read_default(Cursor& cursor, const Option& option) {
  if (option.type == Option::Type::numbers) return read_braced(cursor, option.count);
  if (option.type == Option::Type::list) return read_braced(cursor, 0);
  if (option.type == Option::Type::nullable && cursor.take_word("null")) return nullptr;
  return cursor.number();
}

void check_default(const Option& option, const Location& location) {
  const Constraint& range = option.constraint;
  if (range.low && range.high &&
      (*range.low > *range.high || (*range.low == *range.high && (range.above || range.below))))
    location.fail("no number is in this range. Write the lower bound first, as in `in [0, 1)`.");
  if (const auto problem = option.range_problem(option.initial))
    location.fail(str_cat("the default value is out of range: ", *problem));
}

Value read_flag_default(Cursor& cursor, const Option& option) {
  if (option.type == Option::Type::number) return cursor.integer(-(1 << 30), 1 << 30);
  if (option.type == Option::Type::boolean) {
    if (cursor.take_word("true")) return true;
    if (cursor.take_word("false")) return false;
    cursor.fail("true or false");
  }
  cursor.expect(option.enumeration);
  cursor.expect("::");
  const std::string label = cursor.identifier("a choice");
  if (option.type_problem(label))
    cursor.fail(str_cat("a choice of ", option.enumeration, " (", joined(option.choices),
                        ") instead of `", label, "`"));
  return label;
}

void read_flag_type(Cursor& cursor, const Enumerations& enums, bool integers, Option& option) {
  const std::string type = cursor.identifier("a type");
  option.type = Option::Type::boolean;
  if (type == "bool") return;
  if (integers && type == "int") {
    option.type = Option::Type::number;
    option.constraint.integer = true;
    return;
  }
  if (!integers && (type == "int" || type == "double" || type == "float"))
    cursor.fail("bool or a choice (a number belongs to `struct Hyper`, as in `double k = 2;`)");
  const auto found = enums.find(type);
  if (found == enums.end())
    cursor.fail(str_cat("bool", integers ? ", int" : "", " or a choice declared as `enum class ",
                        type, " { a, b };` on one line"));
  if (std::find(found->second.begin(), found->second.end(), "null") != found->second.end())
    cursor.fail(str_cat("a choice without the label `null`, which is reserved in conditions. ",
                        "Rename the label of ", type));
  option.type = Option::Type::choice;
  option.enumeration = type;
  option.choices = found->second;
}

}  // namespace

Option read_number(const SourceLine& line) {
  Cursor cursor(line.code, line.location);
  Option option;
  option.line = line.location.line;
  read_number_type(cursor, option);
  option.name = cursor.identifier("the option's name");
  cursor.expect("=");
  option.initial = read_default(cursor, option);
  cursor.end_declaration();
  for (const auto segment : segments_of(line)) {
    if (option.type == Option::Type::nullable && segment.starts_with(kAtConstruction))
      option.at_construction = read_name(value_of(segment), line.location, "an option");
    else if (segment == kSameInGroups && option.type != Option::Type::list)
      option.same_in_groups = true;
    else if (!read_constraint(segment, line.location, option.constraint))
      add_free_text(segment, line.location, &option.note);
  }
  check_default(option, line.location);
  return option;
}

static Expression read_lifted(std::string_view condition, const std::string& flag,
                              const Symbols& symbols, const Location& location) {
  if (contains_word(condition, flag))
    location.fail(str_cat("the condition of `", flag, "` names the flag itself, ",
                          "which also hides a size of this name. Rename the flag."));
  return read_condition(condition, symbols, location);
}

Option read_flag(const SourceLine& line, const Enumerations& enums, const Symbols& symbols,
                 bool integers) {
  Cursor cursor(line.code, line.location);
  Option option;
  option.line = line.location.line;
  read_flag_type(cursor, enums, integers, option);
  option.name = cursor.identifier("the flag's name");
  cursor.expect("=");
  option.initial = read_flag_default(cursor, option);
  cursor.end_declaration();
  for (const auto segment : segments_of(line)) {
    if (option.type == Option::Type::boolean && !integers && key_of(segment) == "lifted")
      option.lifted = read_lifted(value_of(segment), option.name, symbols, line.location);
    else if (option.type != Option::Type::number ||
             !read_constraint(segment, line.location, option.constraint))
      add_free_text(segment, line.location, &option.note);
  }
  check_default(option, line.location);
  return option;
}

}  // namespace jitstep::jit
